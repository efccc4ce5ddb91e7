"""Where graphs are compiled and checked, while an artifact is built."""

from __future__ import annotations

import shutil
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from handlers.worker.artifact import TOKENIZER_FILE, Artifact
from handlers.worker.errors import GoldenError, NotFiniteError, WorkerError
from handlers.worker.golden import GoldenRow
from handlers.worker.placement import NEURON_ENGINES
from handlers.worker.rows.plan import longest
from handlers.worker.rows.prompts import default_rows
from handlers.worker.rows.tokenizer import RowTokenizer
from handlers.worker.values import Row, Shape
from marina.compiler.diagnosis import diagnose, reason_of
from marina.compiler.engines import Compiler, GraphPaths, Recipe, open_compiler
from marina.compiler.examples import too_few
from marina.compiler.job import Job
from marina.compiler.mitigations import LADDER
from marina.compiler.parity import measure_parity
from marina.compiler.precision import candidates
from marina.compiler.runtime import Runtime
from marina.errors import CompileError

if TYPE_CHECKING:
    from marina.compiler.export import ExportedModel

SPARE = 1 << 20  # bytes; a disk with fewer is full


class Workshop:
    """Compiles graphs of one model into the folder of one artifact.

    Args:
        job: what is compiled.
        model: loaded.
        artifact: what is known of it so far.
        rows: with reference outputs, that every graph is checked on.
        runtime: loads graphs.

    Attributes:
        runs: whether its graphs can be run here. Without a Neuron device those of its engines cannot.
    """

    def __init__(
        self, job: Job, model: ExportedModel, artifact: Artifact, rows: list[GoldenRow], runtime: Runtime
    ) -> None:
        self.runs = job.device
        self._job = job
        self._model = model
        self._artifact = artifact
        self._rows = rows
        self._runtime = runtime

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

    def recipes(self, precision: str) -> list[Recipe]:
        """What to compile with, until outputs are finite.

        Where that cannot be seen, the first remedy is taken beforehand; it costs nothing.
        """
        if self._job.spec.engine not in NEURON_ENGINES:
            return [Recipe(precision)]
        return [Recipe(precision, mitigations) for mitigations in (LADDER if self.runs else LADDER[1:2])]

    def compile_into(self, shape: Shape, recipe: Recipe, folder: Path) -> GraphPaths:
        """Compile the graph of a shape into a folder; CompileError where the engine cannot."""
        compiler = self.compiler
        try:
            return compiler.compile(shape, recipe, folder)
        except (CompileError, OSError):
            raise
        except Exception as error:
            raise self._refused(error, shape) from error

    def compile_graph(self, shape: Shape, recipe: Recipe) -> dict[str, Any]:
        """Compile one graph; returns its entry in `artifact.json` but for its parity, and the seconds it took."""
        start = time.monotonic()
        folder = self._artifact.folder
        paths = self.compile_into(shape, recipe, folder)
        return {
            "shape": str(shape),
            "graph": str(paths.graph.relative_to(folder)),
            "weights": str(paths.weights.relative_to(folder)) if paths.weights else None,
            **paths.notes,
            "seconds": time.monotonic() - start,
        }

    def check_graph(self, record: dict[str, Any], artifact: Artifact) -> dict[str, Any]:
        """Run one compiled graph; returns its parity, None where it cannot be run, and the memory that it takes.

        Raises:
            NotFiniteError: an output is not finite.
            CompileError: an output differs too much from the reference.
        """
        if not self.runs:
            return {"parity": None, "megabytes": 0.0}
        before = psutil.Process().memory_full_info().uss
        graph, shape = self._runtime.load(record, artifact)
        try:
            parity = measure_parity(graph, shape, self._rows, artifact)
        except NotFiniteError:
            raise
        except GoldenError as error:
            raise self._unfaithful(error, shape, artifact) from None
        except WorkerError:
            raise
        except Exception as error:
            raise self._refused(error, shape) from error
        if self._job.spec.engine in NEURON_ENGINES:  # loaded by another process
            return {"parity": parity, "megabytes": 0.0}
        return {"parity": parity, "megabytes": (psutil.Process().memory_full_info().uss - before) / 1e6}

    def _calibration(self) -> list[Row]:
        """Rows like those that will be served, where a precision needs them."""
        texts = self._job.examples.calibration
        if "int8" not in candidates(self._job.spec, self._job.examples) or not texts:
            return []
        artifact, most = self._artifact, longest(self.shapes)
        tokenizer = RowTokenizer(artifact.folder / TOKENIZER_FILE, artifact.truncation_side)
        rows = default_rows(texts, artifact, tokenizer, most, "reject")
        if not rows:
            raise too_few(self._job.spec, most, "calibrate")
        return rows

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

    def _unfaithful(self, error: GoldenError, shape: Shape, artifact: Artifact) -> CompileError:
        """What is said of a graph that does not answer as the reference does."""
        advice = diagnose(self._model, self._job.spec.engine, shape, self._rows, artifact)
        return CompileError(
            f"{artifact.name}: {error}; no artifact was written. {advice}. Raise parity.tolerance in the spec only if "
            "that difference is acceptable"
        )


def compiler_folder(folder: Path) -> Path:
    """Where the compilers of an artifact's graphs leave their logs, beside the artifact's folder."""
    return folder.with_name(f"{folder.stem}.compiler")
