"""A compile session: one model, its engine's compiler, and the checks of its graphs, while an artifact is built."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from handlers.worker.archive.signature import Signature
from handlers.worker.errors import GoldenError, NotFiniteError, WorkerError
from handlers.worker.members.golden import GoldenRow, check_graph
from handlers.worker.rows.plan import max_sequence_length
from handlers.worker.tokens.prompts import default_rows
from handlers.worker.tokens.reader import open_reader
from handlers.worker.values import Row, Shape
from marina.compiler.examples import too_few
from marina.compiler.graphs.diagnosis import diagnose, reason_of
from marina.compiler.graphs.loader import GraphLoader
from marina.compiler.graphs.parity import round_up
from marina.compiler.graphs.processes import ProcessCompiler
from marina.compiler.graphs.tolerance import f32_tolerance
from marina.compiler.job import CompileJob
from marina.compiler.record import CompiledGraph
from marina.engines.model import ExportedModel
from marina.engines.values import CompileOptions, GraphCompiler, GraphFiles
from marina.errors import CompileError

MIN_FREE_BYTES = 1 << 20  # a disk with less free space counts as full


class CompileSession:
    """Compiles graphs of one model into the folder of one artifact, and checks them.

    Args:
        job: the compilation job.
        model: the loaded model.
        signature: the model's signature.
        folder: the artifact's folder, which contains the tokenizer.
        rows: rows with reference outputs; every graph is checked on them.
        loader: loads graphs.

    Attributes:
        job, signature, folder, loader: as given.
        compiler: the engine's compiler, with the model.
        max_parallel: the maximum number of graphs to compile at a time, each from its own thread.
    """

    def __init__(
        self,
        job: CompileJob,
        model: ExportedModel,
        signature: Signature,
        folder: Path,
        rows: list[GoldenRow],
        loader: GraphLoader,
    ) -> None:
        self.job = job
        self.signature = signature
        self.folder = folder
        self.loader = loader
        self._model = model
        self._rows = rows

    @cached_property
    def compiler(self) -> GraphCompiler:
        engine = self.job.engine
        workdir = self.folder.with_name(f"{self.folder.stem}.compiler")  # logs, beside the artifact's folder
        if engine.compiles_apart:
            return ProcessCompiler(self.job, workdir)
        calibration = self._calibration()
        try:
            return engine.open_compiler(self._model, self.job.settings, calibration, workdir)
        except CompileError:
            raise
        except ImportError as error:
            message = f"the engine {engine.name!r} needs a package that is not installed: {error}"
            raise CompileError(message) from None
        except Exception as error:
            raise self._engine_error(error, self.job.shapes[0]) from error

    @property
    def max_parallel(self) -> int:
        return self.compiler.max_parallel if isinstance(self.compiler, ProcessCompiler) else 1

    def stop(self) -> None:
        """Stop all running compilations; called from another thread."""
        if isinstance(self.compiler, ProcessCompiler):
            self.compiler.stop()

    def compile_into(self, shape: Shape, options: CompileOptions, folder: Path) -> GraphFiles:
        """Compile the graph of a shape into a folder; CompileError if the engine cannot."""
        compiler = self.compiler
        try:
            return compiler.compile(shape, options, folder)
        except (CompileError, OSError):
            raise
        except Exception as error:
            raise self._engine_error(error, shape) from error

    def compile_graph(self, shape: Shape, options: CompileOptions) -> CompiledGraph:
        """Compile one graph of the artifact."""
        start = time.monotonic()
        files = self.compile_into(shape, options, self.folder)
        return CompiledGraph(
            shape=shape,
            graph=str(files.graph.relative_to(self.folder)),
            weights=str(files.weights.relative_to(self.folder)) if files.weights else None,
            notes=files.notes,
            seconds=time.monotonic() - start,
        )

    def check_graph(
        self, graphs: Sequence[CompiledGraph], compiled: CompiledGraph, precision: str, tolerance: float
    ) -> float | None:
        """The largest difference of a compiled graph from the reference; None if this machine cannot run it.

        Args:
            graphs: all graphs of the artifact, which are loaded together.
            compiled: the graph to run, one of them.
            precision: the precision of the graphs.
            tolerance: the largest difference that is accepted.

        Raises:
            NotFiniteError: an output is not finite.
            CompileError: an output differs too much from the reference.
        """
        if not self.job.runs:
            return None
        files = [graph.file for graph in graphs]
        graph, shape = self.loader.load_all(self.folder, files, precision).of(compiled.shape)
        try:
            # the digits after the first differ between processors
            parity = round_up(check_graph(graph, shape, self._rows, self.signature, tolerance))
        except NotFiniteError:
            raise
        except GoldenError as error:
            raise self._parity_error(error, shape, tolerance) from None
        except WorkerError:
            raise
        except Exception as error:
            raise self._engine_error(error, shape) from error
        return parity

    def _calibration(self) -> list[Row]:
        """Calibration rows, like the rows to serve, if a precision needs them."""
        texts = self.job.examples.calibration
        if "int8" not in self.job.candidates or not texts:
            return []
        max_tokens = max_sequence_length(self.job.shapes)
        tokenizer = open_reader(self.folder.joinpath, self.signature)
        rows = default_rows(texts, self.signature, tokenizer, max_tokens, "reject")
        if not rows:
            raise too_few(self.job.spec, max_tokens, "calibrate")
        return rows

    def _engine_error(self, error: Exception, shape: Shape) -> CompileError:
        """The error if an engine cannot compile or run the model."""
        spec = self.job.spec
        if shutil.disk_usage(self.folder).free < MIN_FREE_BYTES:  # engines report a full disk in their own words
            return CompileError(
                f"{spec.name}: no space left on the disk of {self.folder}; free some, and compile again"
            )
        advice = self._diagnosis(shape, f32_tolerance(self.job))
        return CompileError(
            f"{spec.name}: the engine {spec.engine} cannot take the model: {reason_of(error)}. {advice}"
        )

    def _parity_error(self, error: GoldenError, shape: Shape, tolerance: float) -> CompileError:
        """The error for a graph whose outputs differ too much from the reference's."""
        advice = self._diagnosis(shape, tolerance)
        return CompileError(
            f"{self.job.spec.name}: {error}; no artifact was written. {advice}. Raise parity.tolerance in the spec "
            "only if that difference is acceptable"
        )

    def _diagnosis(self, shape: Shape, tolerance: float) -> str:
        return diagnose(self._model, self.job.engine, shape, self._rows, self.signature, tolerance)
