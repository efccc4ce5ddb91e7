"""Where graphs are made, run, checked and timed, while an artifact is built."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import psutil

from handlers.worker.artifact import TOKENIZER_FILE, Artifact
from handlers.worker.calls import load_graphs, new_inputs, run_rows
from handlers.worker.engines import Engine, Graph, Setup, open_engine
from handlers.worker.errors import GoldenError, NotFiniteError, WorkerError
from handlers.worker.golden import GoldenRow
from handlers.worker.instances import Instance
from handlers.worker.placement import NEURON_ENGINES, group_cores
from handlers.worker.plan import Shape, longest
from handlers.worker.prompts import prompted
from handlers.worker.timing import time_graphs
from handlers.worker.tokenizing import Row, RowTokenizer, Tokenized, Window
from marina.compiler.agreement import measure_agreement
from marina.compiler.cache import discard
from marina.compiler.device import Device
from marina.compiler.diagnosis import diagnose, reason_of
from marina.compiler.engines import Compiler, Recipe, open_compiler
from marina.compiler.job import Job
from marina.compiler.mitigations import LADDER
from marina.compiler.parity import measure_parity
from marina.compiler.precision import Trial, candidates, changes_answers, choose
from marina.compiler.timing import BUDGET_S
from marina.errors import CompileError
from marina.tasks import TASKS

if TYPE_CHECKING:
    from marina.compiler.export import ExportedModel

SPARE = 1 << 20  # bytes; a disk with fewer is full
# the rows of those texts that fit, with the reference model's outputs
Texts = Callable[[list[Instance]], list[GoldenRow]]


class Workshop:
    """Compiles graphs of one model into the folder of one artifact; a context manager.

    Args:
        job: what is compiled.
        model: loaded.
        artifact: what is known of it so far.
        rows: with reference outputs, that every graph is checked on.
        texts: computes such rows of other texts.

    Attributes:
        runs: whether its graphs can be run here. Without a Neuron device those of its engines cannot.
    """

    def __init__(self, job: Job, model: ExportedModel, artifact: Artifact, rows: list[GoldenRow], texts: Texts) -> None:
        self.runs = job.device
        self._rows = rows
        self._texts = texts
        self._job = job
        self._model = model
        self._artifact = artifact
        self._engines: dict[str, Engine] = {}

    def __enter__(self) -> Workshop:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if "_device" in vars(self):
            self._device.close()

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """To compile."""
        return self._job.spec.shapes.listed()

    @cached_property
    def compiler(self) -> Compiler:
        """The engine's compiler, with the model."""
        calibration = self._calibration()
        try:
            return open_compiler(self._job, self._model, calibration, compiler_folder(self._artifact.folder))
        except CompileError:
            raise
        except Exception as error:
            raise self._refused(error, self.shapes[0]) from error

    def _calibration(self) -> list[Row]:
        """Rows like those that will be served, where a precision needs them."""
        if "int8" not in candidates(self._job.spec, self._job.examples) or not self._job.examples.calibration:
            return []
        prepared = [
            prompted(instance, self._artifact.default_prompt, self._artifact)
            for instance in self._job.examples.calibration
        ]
        windows = [Window(longest(self.shapes), "reject", prompt_tokens=tokens) for _, tokens in prepared]
        found = self._tokenizer(offsets=False).encode([instance for instance, _ in prepared], windows)
        rows = [row for tokenized in found if isinstance(tokenized, Tokenized) for row in tokenized.rows]
        if not rows:
            raise self._too_few("calibrate")
        return rows

    def settle_precision(self) -> dict[str, Any]:
        """What `artifact.json` says of the precision, and the milliseconds of each that was tried.

        That of a Neuron engine is judged when its graphs are there: compiling one to try takes too long.
        """
        if self._job.spec.engine in NEURON_ENGINES:
            return {"precision": self._artifact.precision, "tried": [], "milliseconds": {}}
        precision, trials = choose(self._job.spec, self._job.examples, self._attempt)
        return self._settled(precision, trials)

    def recipes(self, precision: str) -> list[Recipe]:
        """What to compile with, until outputs are finite.

        Where that cannot be seen, the first remedy is taken beforehand; it costs nothing.
        """
        if self._job.spec.engine not in NEURON_ENGINES:
            return [Recipe(precision)]
        return [Recipe(precision, mitigations) for mitigations in (LADDER if self.runs else LADDER[1:2])]

    def compile_graph(self, shape: Shape, recipe: Recipe) -> dict[str, Any]:
        """Compile one graph; returns its entry in `artifact.json` but for its parity, and the seconds it took."""
        start = time.monotonic()
        folder = self._artifact.folder
        compiler = self.compiler
        try:
            paths = compiler.compile(shape, recipe, folder)
        except (CompileError, OSError):
            raise
        except Exception as error:
            raise self._refused(error, shape) from error
        return {
            "shape": str(shape),
            "graph": str(paths.graph.relative_to(folder)),
            "weights": str(paths.weights.relative_to(folder)) if paths.weights else None,
            **paths.notes,
            "seconds": time.monotonic() - start,
        }

    def check_graph(self, record: dict[str, Any], rows: list[GoldenRow], artifact: Artifact) -> dict[str, Any]:
        """Run one compiled graph; returns its parity, None where it cannot be run, and the memory that it takes.

        Raises:
            NotFiniteError: an output is not finite.
            CompileError: an output differs too much from the reference.
        """
        if not self.runs:
            return {"parity": None, "megabytes": 0.0}
        before = psutil.Process().memory_full_info().uss
        graph, shape = self._load(record, artifact)
        try:
            parity = measure_parity(graph, shape, rows, artifact)
        except NotFiniteError:
            raise
        except GoldenError as error:
            raise self._unfaithful(error, shape, rows, artifact) from None
        except WorkerError:
            raise
        except Exception as error:
            raise self._refused(error, shape) from error
        if self._job.spec.engine in NEURON_ENGINES:  # loaded by another process
            return {"parity": parity, "megabytes": 0.0}
        return {"parity": parity, "megabytes": (psutil.Process().memory_full_info().uss - before) / 1e6}

    def judge(self, records: list[dict[str, Any]], artifact: Artifact) -> dict[str, Any]:
        """For a Neuron engine what `settle_precision` returns, of its largest graph.

        Raises:
            CompileError: its precision changes answers.
        """
        if not self.runs or artifact.precision == "f32":
            return {"precision": artifact.precision, "tried": [], "milliseconds": {}}
        largest = max(records, key=lambda record: _size(Shape.parse(record["shape"])))
        trial = self._try(artifact.precision, *self._load(largest, artifact))
        if not trial.passes(self._job.spec):
            raise changes_answers(trial, self._job.spec)
        return self._settled(artifact.precision, [trial])

    def time_graphs(self, artifact: Artifact) -> dict[Shape, float]:
        """Milliseconds of one call of each graph that was compiled; empty where they cannot be run."""
        if not self.runs:
            return {}
        engine = self._engine(artifact.precision)
        found = time_graphs(load_graphs(engine, artifact), artifact, BUDGET_S * len(artifact.graphs))
        return {
            Shape(shape.batch_size // engine.replicas, shape.sequence_length): time for shape, time in found.items()
        }

    @cached_property
    def _held_out(self) -> list[GoldenRow]:
        return self._texts(self._job.examples.held_out)

    def _attempt(self, precision: str) -> Trial:
        """One graph, the largest, in a precision: how fast it is, and how alike its answers are."""
        shape = max(self.shapes, key=_size)
        folder = self._artifact.folder / "probe"
        (folder / "graphs").mkdir(parents=True, exist_ok=True)
        try:
            paths = self.compiler.compile(shape, Recipe(precision), folder)
            record = {"shape": str(shape), "graph": paths.graph, "weights": paths.weights}
            artifact = replace(self._artifact, precision=precision)
            return self._try(precision, *self._load(record, artifact))
        finally:
            discard(folder)

    def _try(self, precision: str, graph: Graph, shape: Shape) -> Trial:
        milliseconds = time_graphs([{shape: graph}], self._artifact, BUDGET_S)[shape]
        if precision == "f32":
            return Trial(precision, milliseconds, None)
        if not self._held_out:
            raise self._too_few("judge")
        outputs = []
        for start in range(0, len(self._held_out), shape.batch_size):
            rows = self._held_out[start : start + shape.batch_size]
            results = run_rows(graph, [row.row for row in rows], self._artifact)
            outputs += [[result[place] for result in results] for place in range(len(rows))]
        task = TASKS[self._artifact.task]()
        tokenizer, parameters = self._tokenizer(task.offsets), self._job.spec.parameters
        agreement = measure_agreement(self._held_out, outputs, self._artifact, task, tokenizer, parameters)
        return Trial(precision, milliseconds, agreement)

    def _tokenizer(self, offsets: bool) -> RowTokenizer:
        return RowTokenizer(self._artifact.folder / TOKENIZER_FILE, self._artifact.truncation_side, offsets)

    def _settled(self, precision: str, trials: list[Trial]) -> dict[str, Any]:
        return {
            "precision": precision,
            "tried": [trial.entry(self._job.spec) for trial in trials],
            "milliseconds": {trial.precision: trial.milliseconds for trial in trials},
        }

    def _refused(self, error: Exception, shape: Shape) -> CompileError:
        """What is said of an engine that cannot take the model."""
        spec = self._job.spec
        folder = self._artifact.folder
        if shutil.disk_usage(folder).free < SPARE:  # engines say it in words of their own
            return CompileError(f"{spec.name}: no space left on the disk of {folder}; free some, and compile again")
        advice = diagnose(self._model, spec.engine, shape, self._rows, self._artifact)
        return CompileError(
            f"{spec.name}: the engine {spec.engine} cannot take the model: {reason_of(error)}. {advice}"
        )

    def _unfaithful(self, error: GoldenError, shape: Shape, rows: list[GoldenRow], artifact: Artifact) -> CompileError:
        """What is said of a graph that does not answer as the reference does."""
        advice = diagnose(self._model, self._job.spec.engine, shape, rows, artifact)
        return CompileError(
            f"{artifact.name}: {error}; no artifact was written. {advice}. Raise parity.tolerance in the spec only if "
            "that difference is acceptable"
        )

    def _too_few(self, purpose: str) -> CompileError:
        spec = self._job.spec
        limit = longest(spec.shapes.listed())
        return CompileError(
            f"{spec.name}: examples holds no text of at most {limit} tokens to {purpose} on, which every other one is "
            f"for; give more texts, or use precision: f32"
        )

    def _load(self, record: dict[str, Any], artifact: Artifact) -> tuple[Graph, Shape]:
        """A graph that was compiled, and its shape with the rows of all replicas."""
        engine = self._engine(artifact.precision)
        compiled = Shape.parse(record["shape"])
        shape = Shape(compiled.batch_size * engine.replicas, compiled.sequence_length)
        weights = artifact.folder / record["weights"] if record["weights"] else None
        (graph,) = engine.load(artifact.folder / record["graph"], weights, [new_inputs(shape, artifact)])
        return graph, shape

    def _engine(self, precision: str) -> Engine:
        spec = self._job.spec
        if spec.engine in NEURON_ENGINES:
            return self._device
        if precision not in self._engines:
            cores = group_cores(spec.core_groups)
            setup = Setup(cores, cores, precision)
            self._engines[precision] = open_engine(spec.engine, setup)
        return self._engines[precision]

    @cached_property
    def _device(self) -> Device:
        spec = self._job.spec
        setup = Setup(1, 1, self._artifact.precision, spec.mode, self._job.options, self._job.versions)
        device = Device(spec.engine, spec.core_groups, setup, spec.name)
        if device.refusal:
            raise CompileError(
                f"{spec.name}: its graphs cannot be checked: {device.refusal}. They are kept; compile again when cores "
                "are free"
            )
        return device


def compiler_folder(folder: Path) -> Path:
    """Where the compilers of an artifact's graphs leave their logs, beside the artifact's folder."""
    return folder.with_name(f"{folder.stem}.compiler")


def _size(shape: Shape) -> tuple[int, int]:
    return shape.sequence_length, shape.batch_size
