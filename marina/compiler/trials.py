"""Tries precisions: one graph in each, judged by its answers to held-out texts, and timed in turn with the others."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from handlers.worker.artifact import TOKENIZER_FILE, Artifact
from handlers.worker.golden import GoldenRow
from handlers.worker.placement import NEURON_ENGINES
from handlers.worker.rows.calls import run_rows
from handlers.worker.rows.plan import longest
from handlers.worker.rows.tokenizer import RowTokenizer
from handlers.worker.tasks import TASKS
from handlers.worker.values import Instance, Shape
from marina.compiler.agreement import measure_agreement
from marina.compiler.cache import discard
from marina.compiler.engines import GraphPaths, Recipe
from marina.compiler.examples import too_few
from marina.compiler.job import Job
from marina.compiler.precision import ASKED, Choice, Trial, changes_answers, choose
from marina.compiler.runtime import Loaded, Runtime
from marina.compiler.timing import time_in_turn

PROBES = "probes"  # folder of graphs that are made to try a precision
# compiles the graph of a shape into a folder
Compile = Callable[[Shape, Recipe, Path], GraphPaths]
# the rows of those texts that fit, with the reference model's outputs
Texts = Callable[[list[Instance]], list[GoldenRow]]


class Trials:
    """Trials of one model's precisions.

    Args:
        job: what is compiled.
        artifact: what is known of it so far.
        compile_graph: makes graphs to try.
        runtime: loads them.
        texts: computes the rows of held-out texts.
    """

    def __init__(self, job: Job, artifact: Artifact, compile_graph: Compile, runtime: Runtime, texts: Texts) -> None:
        self._job = job
        self._artifact = artifact
        self._compile = compile_graph
        self._runtime = runtime
        self._texts = texts
        self._probes: dict[str, Loaded] = {}

    def settle(self) -> dict[str, Any]:
        """What `artifact.json` says of the precision, and what was measured of each that was tried.

        That of a Neuron engine is judged when its graphs are there: compiling one to try takes too long.
        """
        if self._job.spec.engine in NEURON_ENGINES:
            return self._settled(Choice(self._artifact.precision, ASKED))
        try:
            return self._settled(choose(self._job.spec, self._job.examples, self._attempt, self._time))
        finally:
            self._probes.clear()
            discard(self._artifact.folder / PROBES)

    def judge(self, records: list[dict[str, Any]], artifact: Artifact) -> dict[str, Any]:
        """For a Neuron engine what `settle` returns, of its largest graph.

        Raises:
            CompileError: its precision changes answers.
        """
        if not self._job.device or artifact.precision == "f32":
            return self._settled(Choice(artifact.precision, ASKED))
        largest = max(records, key=lambda record: _size(Shape.parse(record["shape"])))
        loaded = self._runtime.load(largest, artifact)
        trial = self._agreement(artifact.precision, loaded)
        if not trial.passes(self._job.spec):
            raise changes_answers(trial, self._job.spec)
        rounds = time_in_turn({artifact.precision: loaded}, self._artifact)[artifact.precision]
        return self._settled(Choice(artifact.precision, ASKED, (trial._replace(rounds=rounds),)))

    @cached_property
    def _held_out(self) -> list[GoldenRow]:
        return self._texts(self._job.examples.held_out)

    def _attempt(self, precision: str) -> Trial:
        """One graph, the largest, in a precision: how alike its answers are. It stays loaded, to be timed."""
        shape = max(self._job.spec.shapes.listed(), key=_size)
        folder = self._artifact.folder / PROBES / precision
        (folder / "graphs").mkdir(parents=True, exist_ok=True)
        paths = self._compile(shape, Recipe(precision), folder)
        record = {"shape": str(shape), "graph": paths.graph, "weights": paths.weights}
        self._probes[precision] = self._runtime.load(record, replace(self._artifact, precision=precision))
        return self._agreement(precision, self._probes[precision])

    def _time(self, precisions: Sequence[str]) -> dict[str, tuple[float, ...]]:
        return time_in_turn({name: self._probes[name] for name in precisions}, self._artifact)

    def _agreement(self, precision: str, loaded: Loaded) -> Trial:
        if precision == "f32":
            return Trial(precision, None)
        if not self._held_out:
            raise too_few(self._job.spec, longest(self._job.spec.shapes.listed()), "judge")
        outputs = []
        size = loaded.shape.batch_size
        for start in range(0, len(self._held_out), size):
            rows = self._held_out[start : start + size]
            results = run_rows(loaded.graph, [row.row for row in rows], self._artifact)
            outputs += [[result[place] for result in results] for place in range(len(rows))]
        task, path = TASKS[self._artifact.task], self._artifact.folder / TOKENIZER_FILE
        tokenizer = RowTokenizer(path, self._artifact.truncation_side, task.offsets)
        parameters = self._job.spec.parameters
        return Trial(precision, measure_agreement(self._held_out, outputs, self._artifact, task, tokenizer, parameters))

    def _settled(self, choice: Choice) -> dict[str, Any]:
        return {
            "precision": choice.precision,
            "decided": choice.decided,
            "tried": [trial.entry(self._job.spec) for trial in choice.trials],
            "measured": {
                "precisions": {trial.precision: statistics.median(trial.rounds) for trial in choice.trials},
                "noise": choice.noise,
            },
        }


def _size(shape: Shape) -> tuple[int, int]:
    return shape.sequence_length, shape.batch_size
