"""Advice on the shapes of one model: measures times, chooses shapes, and reports the effect of changing them."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import NamedTuple

from handlers.worker.archive.artifact import read_artifact
from handlers.worker.engines import Setup, open_runtime
from handlers.worker.placement import group_cores
from handlers.worker.rows.calls import load_graphs
from handlers.worker.rows.plan import max_sequence_length
from handlers.worker.rows.timing import time_graphs
from handlers.worker.values import Shape
from marina.archive.describe import WORKER_BYTES
from marina.compiler import compile_model
from marina.compiler.examples import expand
from marina.compiler.graphs.times import BUILD_FIELDS, read_measured, read_times
from marina.compiler.lengths import count_tokens
from marina.compiler.sources import open_source
from marina.console import Progress
from marina.engines import engine_of, engines
from marina.errors import CompileError, NotPackable, SpecError
from marina.project import Project
from marina.shapes.best import best_shapes
from marina.shapes.choice import choose_for_bulk, choose_shapes
from marina.shapes.costs import CostModel
from marina.shapes.ladder import DEFAULT_GRAPHS, default_ladder
from marina.shapes.lengths import read_lengths
from marina.shapes.report import Effect, effect
from marina.spec import Spec
from marina.spec.sections import MIN_PACKED_LENGTH, Shapes

MAX_GRAPHS = 24
FULL_BATCH_ROWS = 64  # maximum rows of a full batch; more would not change the result
BULK_ROWS = 10_000  # rows that a job in bulk plans at once
TIMING_BUDGET_S = 2.0
COMPARED_ROWS = 400  # rows of a full batch in bulk on which sets of shapes are compared
CURRENT, PLAIN, PACKED = "now", "without packed rows", "with packed rows"  # names of the considered shapes


class GraphLimit(NamedTuple):
    """The number of graphs that fit on one core of a device; key is the device's machine-readable name."""

    device: str
    key: str
    graphs: int


class ConsideredShapes(NamedTuple):
    """Shapes, and their effects on single texts and on full batches."""

    shapes: tuple[Shape, ...]
    effects: list[Effect]


class Advice(NamedTuple):
    """The result of `advise`; effects are measured on the half of the texts that the shapes were not chosen on.

    considered has the current shapes, the best shapes without packed rows and, if rows can be packed, the best shapes
    with packed rows; one of the last two was chosen. Without texts there are no lengths and no effects, and waste_bound
    is the ladder's maximum waste. unpacked_reason says why rows cannot be packed.
    """

    shapes: tuple[Shape, ...]
    considered: dict[str, ConsideredShapes]
    lengths: list[int]
    waste_bound: float | None
    unpacked_reason: str
    error: float  # largest relative error of the fitted times
    seconds: float  # to compile a graph
    megabytes: float  # memory of a loaded graph
    graph_limits: list[GraphLimit]

    @property
    def before(self) -> list[Effect]:
        """The effects of the current shapes."""
        return self.considered[CURRENT].effects if self.lengths else []

    @property
    def after(self) -> list[Effect]:
        """The effects of the chosen shapes."""
        chosen_effects = [
            option.effects
            for name, option in self.considered.items()
            if name != CURRENT and option.shapes == self.shapes
        ]
        return chosen_effects[0] if chosen_effects else []


def advise(
    spec: Spec,
    project: Project,
    texts: Path | list[int] | None,
    graphs: int | None,
    price: float,
    progress: Progress,
    bulk: bool = False,
) -> Advice:
    """Choose shapes for a model.

    A few graphs are compiled and timed first. This is not repeated while the model stays the same.

    Args:
        spec: the model's spec.
        project: the project of the spec.
        texts: a file of lengths or texts, or the lengths; None for the spec's own examples, or a ladder if it has none.
        graphs: the number of graphs to choose; None for every graph that is worth its price.
        price: the price of a graph: the fraction of the best possible time that the graph must save.
        progress: shows the progress of compiling.
        bulk: whether to choose for jobs in bulk only.

    Raises:
        SpecError, SourceError, CompileError: the file cannot be read, or the model cannot be compiled.
    """
    current = spec.shapes.listed()
    limit = max_sequence_length(current)
    probe, unpacked_reason = _probe(spec, project, limit, progress)
    times = _time(probe, spec)
    model = CostModel(times)
    error = model.error(times)
    measured = read_measured(probe)
    seconds, megabytes = (statistics.fmean(measured.get(name, {"": 0.0}).values()) for name in BUILD_FIELDS)
    graphs_in_memory = _graphs_in_memory(spec, megabytes)
    weights = open_source(spec, project.root).count_weights()
    graph_limits = [
        GraphLimit(memory.device, memory.key, memory.graphs(weights))
        for engine in engines().values()
        for memory in engine.memories
    ]
    if texts is None and spec.examples:
        texts = project.root / spec.examples
    if texts is None:
        fallback = default_ladder(limit, min(graphs or DEFAULT_GRAPHS[model.packed], graphs_in_memory), model.packed)
        considered = {CURRENT: ConsideredShapes(current, [])}
        return Advice(
            fallback.shapes, considered, [], fallback.waste, unpacked_reason, error, seconds, megabytes, graph_limits
        )
    full_batch_rows = BULK_ROWS if bulk else min(FULL_BATCH_ROWS, spec.serving.batch_size)
    token_counts = (
        texts
        if isinstance(texts, list)
        else read_lengths(
            texts, spec.instance_fields, lambda instances: count_tokens(read_artifact(probe), expand(spec, instances))
        )
    )
    lengths = [min(tokens, limit) for tokens in token_counts]
    fitting, max_graphs = lengths[0::2], min(graphs or MAX_GRAPHS, graphs_in_memory)
    if bulk:
        choices = choose_for_bulk(fitting, limit, model.milliseconds, max_graphs)
    else:
        choices = choose_shapes(fitting, limit, full_batch_rows, model.milliseconds, max_graphs)
    compared_rows = min(full_batch_rows, COMPARED_ROWS)
    best = best_shapes(choices, fitting, limit, compared_rows, model, max_graphs, None if graphs else price)
    held_out = lengths[1::2]
    held_out *= math.ceil(full_batch_rows / len(held_out)) if bulk and held_out else 1
    shapes_by_name = {CURRENT: current, PLAIN: best.plain, **({PACKED: best.packed} if best.packed else {})}
    considered = {
        name: ConsideredShapes(
            shapes, [effect(held_out, shapes, model.milliseconds, rows) for rows in (1, full_batch_rows)]
        )
        for name, shapes in shapes_by_name.items()
    }
    return Advice(best.shapes, considered, lengths, None, unpacked_reason, error, seconds, megabytes, graph_limits)


def _graphs_in_memory(spec: Spec, megabytes: float) -> int:
    """How many graphs a worker has room for, by the spec's memory_mb."""
    if spec.memory_mb is None or not megabytes:
        return MAX_GRAPHS
    worker = WORKER_BYTES / 1e6
    graphs = int((spec.memory_mb - worker) / megabytes)
    if graphs < 1:
        raise SpecError(
            f"{spec.name}: memory_mb: {spec.memory_mb} has room for no graph: a worker takes about {worker:.0f} MB, "
            f"and {megabytes:.0f} MB for each",
            f"write at least {math.ceil(worker + megabytes)}",
        )
    return graphs


def _probe(spec: Spec, project: Project, limit: int, progress: Progress) -> tuple[Path, str]:
    """Compile a few graphs; returns the artifact's folder, and why rows cannot be packed, if so."""
    reason = engine_of(spec.engine).refuses_packed(spec.for_engine)
    try:
        if not reason:
            return compile_model(spec.model_copy(update={"shapes": probe_shapes(limit)}), project, progress).folder, ""
    except NotPackable as error:
        reason = str(error).removeprefix(f"{spec.name}: ").partition("; leave out")[0]
    shapes = probe_shapes(limit, packed=False)
    return compile_model(spec.model_copy(update={"shapes": shapes}), project, progress).folder, reason


def probe_shapes(limit: int, packed: bool = True) -> Shapes:
    """Shapes whose measured times allow fitting the times of all other shapes."""
    short, middle = min(16, limit), min(64, limit)
    shapes = {Shape(1, short), Shape(8, short), Shape(32, short), Shape(1, middle), Shape(8, middle)}
    if packed and limit >= MIN_PACKED_LENGTH:
        shapes |= {Shape(1, middle, True), Shape(1, limit, True), Shape(4, limit, True), Shape(8, middle, True)}
    return Shapes(exact=tuple(str(shape) for shape in sorted(shapes | {Shape(1, limit), Shape(4, limit)})))


def _time(folder: Path, spec: Spec) -> dict[Shape, float]:
    """Milliseconds of an artifact's graphs, measured on this machine on a core group of the spec.

    Raises:
        CompileError: the graphs cannot be run here.
    """
    artifact = read_artifact(folder)
    if engine_of(artifact.engine).cores.exclusive:
        times = read_times(folder)
        if not times:
            raise CompileError(
                f"{spec.name}: shapes are chosen by the times of graphs, and those of the engine {spec.engine} cannot "
                "run here; choose them on an instance with free NeuronCores"
            )
        return times
    cores = group_cores(spec.core_groups)
    setup = Setup(cores, cores, artifact.precision)
    streams = load_graphs(open_runtime(artifact.engine, setup), folder.joinpath, artifact.graphs, artifact.signature)
    return time_graphs(streams, artifact.signature, TIMING_BUDGET_S)
