"""Where graphs are made, run, checked and timed, while an artifact is built."""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

import psutil

from handlers.worker.artifact import TOKENIZER_FILE, Artifact
from handlers.worker.calls import load_graphs, new_inputs, run_rows
from handlers.worker.cores import worker_cores
from handlers.worker.engines import Engine, Graph, open_engine
from handlers.worker.golden import GoldenRow
from handlers.worker.plan import Shape, longest
from handlers.worker.timing import time_graphs
from handlers.worker.tokenizing import RowTokenizer
from marina.compiler.agreement import measure_agreement
from marina.compiler.cache import discard
from marina.compiler.engines import Compiler, GraphPaths, open_compiler
from marina.compiler.job import Job
from marina.compiler.parity import measure_parity
from marina.compiler.precision import Trial, choose
from marina.compiler.timing import BUDGET_S
from marina.errors import CompileError
from marina.tasks import TASKS

if TYPE_CHECKING:
    from marina.compiler.export import ExportedModel


class Workshop:
    """Compiles graphs of one model into the folder of one artifact.

    Args:
        job: what is compiled.
        model: loaded.
        artifact: what is known of it so far.
    """

    def __init__(self, job: Job, model: ExportedModel, artifact: Artifact) -> None:
        self._job = job
        self._model = model
        self._artifact = artifact
        self._cores = worker_cores(job.spec.core_groups)
        self._engines: dict[str, Engine] = {}

    def settle_precision(self) -> dict[str, Any]:
        """What `artifact.json` says of the precision, and the milliseconds of each that was tried."""
        precision, trials = choose(self._job.spec, self._job.examples, self._attempt)
        return {
            "precision": precision,
            "tried": [trial.entry(self._job.spec) for trial in trials],
            "milliseconds": {trial.precision: trial.milliseconds for trial in trials},
        }

    def compile_graph(self, shape: Shape, rows: list[GoldenRow], artifact: Artifact) -> dict[str, Any]:
        """Compile and check one graph; returns its entry in `artifact.json`, and what it took."""
        start = time.monotonic()
        paths = self._compiler.compile(shape, artifact.precision, artifact.folder)
        seconds = time.monotonic() - start
        before = psutil.Process().memory_full_info().uss
        graph = self._load(paths, shape, artifact.precision)
        parity = measure_parity(graph, shape, rows, artifact)
        return {
            "shape": str(shape),
            "graph": str(paths.graph.relative_to(artifact.folder)),
            "weights": str(paths.weights.relative_to(artifact.folder)) if paths.weights else None,
            "parity": parity,
            "seconds": seconds,
            "megabytes": (psutil.Process().memory_full_info().uss - before) / 1e6,
        }

    def time_graphs(self, artifact: Artifact) -> dict[Shape, float]:
        """Milliseconds of one call of each graph that was compiled."""
        graphs = load_graphs(self._engine(artifact.precision), artifact)
        return time_graphs(graphs, artifact, BUDGET_S * len(graphs))

    @cached_property
    def _compiler(self) -> Compiler:
        from marina.compiler.reference import tokens

        rows = [tokens(self._model, instance) for instance in self._job.examples.calibration]
        fitting = [row for row in rows if 0 < len(row.ids) <= longest(self._job.spec.shapes.listed())]
        if rows and not fitting:
            raise self._too_few("calibrate")
        return open_compiler(self._artifact.engine, self._model, fitting)

    @cached_property
    def _held_out(self) -> list[GoldenRow]:
        from marina.compiler.reference import reference_rows

        return reference_rows(self._model, self._job.examples.held_out, longest(self._job.spec.shapes.listed()))

    def _attempt(self, precision: str) -> Trial:
        """One graph, the largest, in a precision: how fast it is, and how alike its answers are."""
        shapes = self._job.spec.shapes.listed()
        shape = max(shapes, key=lambda shape: (shape.sequence_length, shape.batch_size))
        folder = self._artifact.folder / "probe"
        (folder / "graphs").mkdir(parents=True, exist_ok=True)
        try:
            graph = self._load(self._compiler.compile(shape, precision, folder), shape, precision)
            milliseconds = time_graphs({shape: graph}, self._artifact, BUDGET_S)[shape]
            if precision == "f32":
                return Trial(precision, milliseconds, None)
            if not self._held_out:
                raise self._too_few("judge")
            outputs = []
            for start in range(0, len(self._held_out), shape.batch_size):
                rows = self._held_out[start : start + shape.batch_size]
                results = run_rows(graph, [row.row for row in rows], self._artifact)
                outputs += [[result[place] for result in results] for place in range(len(rows))]
        finally:
            discard(folder)
        task = TASKS[self._artifact.task]()
        tokenizer = RowTokenizer(
            self._artifact.folder / TOKENIZER_FILE, self._artifact.truncation_side, offsets=task.offsets
        )
        parameters = self._job.spec.parameters
        agreement = measure_agreement(self._held_out, outputs, self._artifact, task, tokenizer, parameters)
        return Trial(precision, milliseconds, agreement)

    def _too_few(self, purpose: str) -> CompileError:
        spec = self._job.spec
        limit = longest(spec.shapes.listed())
        return CompileError(
            f"{spec.name}: examples holds no text of at most {limit} tokens to {purpose} on, which every other one is "
            f"for; give more texts, or use precision: f32"
        )

    def _load(self, paths: GraphPaths, shape: Shape, precision: str) -> Graph:
        return self._engine(precision).load(paths.graph, paths.weights, new_inputs(shape, self._artifact))

    def _engine(self, precision: str) -> Engine:
        if precision not in self._engines:
            self._engines[precision] = open_engine(self._artifact.engine, self._cores, precision)
        return self._engines[precision]
