"""Tries precisions: compiles a graph in each, judges its answers to held-out texts, and times it against the others."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import cached_property

from handlers.worker.members.golden import GoldenRow
from handlers.worker.rows.calls import run_all
from handlers.worker.rows.plan import max_sequence_length
from handlers.worker.tokens.reader import open_reader
from handlers.worker.values import Instance, Shape
from marina.compiler.cache import discard
from marina.compiler.examples import too_few
from marina.compiler.graphs.loader import LoadedGraph
from marina.compiler.graphs.session import CompileSession
from marina.compiler.graphs.times import time_in_turn
from marina.compiler.precision.choice import BY_SPEC, PrecisionChoice, PrecisionTrial, changes_answers, choose
from marina.compiler.record import CheckedGraph, PrecisionRecord
from marina.compiler.tasks import EXPORTERS
from marina.engines.values import CompileOptions

PROBES = "probes"  # folder of the graphs that are made to try precisions
# computes a row with the reference model's outputs for each held-out text that fits
ComputeRows = Callable[[list[Instance]], list[GoldenRow]]


class Trials:
    """Trials of one model's precisions.

    Args:
        session: compiles and loads the trial graphs.
        compute_rows: computes the rows of held-out texts.
    """

    def __init__(self, session: CompileSession, compute_rows: ComputeRows) -> None:
        self._session = session
        self._job = session.job
        self._compute_rows = compute_rows
        self._probes: dict[str, LoadedGraph] = {}

    def settle(self) -> PrecisionRecord:
        """Choose the precision to compile in.

        If a trial graph takes too long to compile, the precision is judged once all graphs are compiled.
        """
        job = self._job
        if job.engine.compiles_apart:
            return self._record(PrecisionChoice(job.candidates[0], BY_SPEC))
        try:
            return self._record(choose(job.spec, job.candidates, self._attempt, self._time))
        finally:
            self._probes.clear()
            discard(self._session.folder / PROBES)

    def judge(self, graphs: list[CheckedGraph], precision: str) -> PrecisionRecord:
        """The same record as `settle`, judged on the largest of the compiled graphs.

        Raises:
            CompileError: the precision changes answers.
        """
        if not self._job.runs or precision == "f32":
            return self._record(PrecisionChoice(precision, BY_SPEC))
        compiled = max(graphs, key=lambda graph: _size(graph.compiled.shape)).compiled
        loaded = self._session.loader.load(
            compiled.shape, *compiled.file.paths(self._session.folder.joinpath), precision
        )
        trial = self._agreement(precision, loaded)
        if not trial.passes(self._job.spec):
            raise changes_answers(trial, self._job.spec)
        rounds = time_in_turn({precision: loaded}, self._session.signature)[precision]
        return self._record(PrecisionChoice(precision, BY_SPEC, (trial._replace(rounds=rounds),)))

    @cached_property
    def _held_out(self) -> list[GoldenRow]:
        return self._compute_rows(self._job.examples.held_out)

    def _attempt(self, precision: str) -> PrecisionTrial:
        """Compile the largest graph in a precision and judge its answers. It stays loaded, to be timed."""
        shape = max(self._job.shapes, key=_size)
        folder = self._session.folder / PROBES / precision
        (folder / "graphs").mkdir(parents=True, exist_ok=True)
        files = self._session.compile_into(shape, CompileOptions(precision), folder)
        self._probes[precision] = self._session.loader.load(shape, files.graph, files.weights, precision)
        return self._agreement(precision, self._probes[precision])

    def _time(self, precisions: Sequence[str]) -> dict[str, tuple[float, ...]]:
        return time_in_turn({name: self._probes[name] for name in precisions}, self._session.signature)

    def _agreement(self, precision: str, loaded: LoadedGraph) -> PrecisionTrial:
        if precision == "f32":
            return PrecisionTrial(precision, None)
        spec = self._job.spec
        if not self._held_out:
            raise too_few(spec, max_sequence_length(self._job.shapes), "judge")
        outputs = run_all(loaded.graph, loaded.shape, [row.row for row in self._held_out], self._session.signature)
        tokenizer = open_reader(self._session.folder.joinpath, self._session.signature)
        agree = EXPORTERS[spec.task].agree
        return PrecisionTrial(
            precision, agree(self._held_out, outputs, self._session.signature, tokenizer, spec.parameters)
        )

    def _record(self, choice: PrecisionChoice) -> PrecisionRecord:
        return PrecisionRecord(
            precision=choice.precision,
            decided=choice.decided,
            tried=[trial.entry(self._job.spec) for trial in choice.trials],
            milliseconds={trial.precision: statistics.median(trial.rounds) for trial in choice.trials},
            noise=choice.noise,
        )


def _size(shape: Shape) -> tuple[int, int]:
    return shape.sequence_length, shape.batch_size
