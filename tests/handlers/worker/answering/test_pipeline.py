"""An answer never reaches another instance, whatever the tokenizer and the graphs lose, double or reorder."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from handlers.worker.answering import pipeline
from handlers.worker.answering.pipeline import Graphs, Part
from handlers.worker.archive.signature import Signature
from handlers.worker.engines import Inputs
from handlers.worker.errors import RequestError
from handlers.worker.members.member import Member
from handlers.worker.request.instances import Answered, Request
from handlers.worker.rows.calls import ModelGraphs, new_inputs
from handlers.worker.tasks.columns import same
from handlers.worker.tokens.tokenizer import K, Text, Tokenized, Window
from handlers.worker.values import Instance, Row, Shape

SIGNATURE = Signature(("input_ids", "attention_mask"), ("out",), 0, 0, "right", {}, {}, {}, None, False)
TIMES = {Shape(1, 8): 1.0, Shape(4, 8): 2.0, Shape(2, 16): 3.0}
CASES = 10_000


class Faults:
    """Loses, doubles and reorders values in some of its turns, drawn with a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.kind = self._random.choice(["none", "drop", "double", "order", "raise"])

    def values(self, values: Sequence[Any], reorder: bool = True) -> list[Any]:
        changed = list(values)
        place = self._random.randrange(len(changed)) if changed else 0
        if not changed or self._random.random() < 0.4:
            return changed
        if self.kind == "drop":
            del changed[place]
        elif self.kind == "double":
            changed.insert(place, changed[place])
        elif self.kind == "order" and reorder:
            self._random.shuffle(changed)
        elif self.kind == "raise":
            raise RuntimeError("drawn")
        return changed


class Reader:
    """A text "3 3 3" has a row of three tokens 3; one with a bar has a row for each side of it."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def encode(self, texts: Mapping[K, Text], _: bool = False) -> dict[K, Tokenized | RequestError]:
        rows: dict[K, Tokenized | RequestError] = {}
        for key in self._faults.values(list(texts)):
            parts = texts[key].instance.text.split("|")
            ids = [[int(token) for token in part.split()] for part in parts]
            rows[key] = Tokenized([Row(row, [0] * len(row)) for row in ids], [], truncated=False)
        return rows


class Graph:
    """Returns the first token of each row."""

    def __init__(self, shape: Shape, faults: Faults) -> None:
        self.inputs: Inputs = new_inputs(shape, SIGNATURE)
        self._faults = faults

    def run(self, rows: int) -> list[npt.NDArray[np.float32]]:
        first = self._faults.values(self.inputs[0][:rows, 0].tolist(), reorder=False)
        if self._faults.kind == "double" and len(first) > rows:  # more places than rows is allowed, after the others
            first = [*self.inputs[0][:rows, 0].tolist(), first[0]]
        return self._faults.values([np.array(first, np.float32)])


class StubMember:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def check_rows(rows: int) -> None:
    if rows > 12:
        raise RequestError("TooManyRows", "")


def member(faults: Faults, reader: Reader) -> Member:
    def answer(_: Instance, tokenized: Tokenized, outputs: Sequence[Any], __: Any) -> Answered | RequestError:
        errors = [each for each in outputs if isinstance(each, RequestError)]
        return errors[0] if errors else Answered([int(row[0]) for row in outputs], False, len(tokenized.rows))

    return cast(
        "Member",
        StubMember(
            reader=reader,
            task=SimpleNamespace(offsets=False, condense=same),
            check_rows=check_rows,
            check_tokens=lambda _: None,
            times=TIMES,
            graphs=ModelGraphs([{shape: Graph(shape, faults) for shape in TIMES}], SIGNATURE),
            window=lambda _: Window(16, "reject"),
            # each text between semicolons is read by itself
            texts=lambda instance, _, window: [Text(Instance(text), window) for text in instance.text.split(";")],
            answer=answer,
        ),
    )


def draw_parts(draw: random.Random, members: Sequence[Member]) -> Iterator[Part]:
    for _ in range(draw.randrange(1, 5)):
        texts = []
        for _ in range(draw.randrange(1, 5)):
            sides = [f"{draw.randrange(1, 9)} " * draw.randrange(1, 16) for _ in range(draw.choice([1, 1, 1, 2, 3]))]
            texts.append("".join(f"{draw.choice('|;')}{side}" for side in sides)[1:])
        yield pipeline.prepare(draw.choice(members), Request(tuple(map(Instance, texts)), {}, "json"))


def test_no_answer_reaches_another_instance() -> None:
    logging.disable(logging.CRITICAL)  # an error that is drawn is logged each time
    answered = refused = 0
    try:
        for seed in range(CASES):
            draw, reading, running = random.Random(seed), Faults(2 * seed), Faults(2 * seed + 1)
            reader = Reader(reading)
            members = [member(running, reader), member(Faults(seed), reader)]
            parts = list(draw_parts(draw, members))
            inferences = [inference for part in parts for inference in part.inferences]
            pipeline.tokenize(inferences)
            for part in parts:
                pipeline.check_limits(part.inferences)
            graphs = Graphs(members)
            graphs.run(graphs.plan(inferences))
            pipeline.answer(inferences)
            for inference in inferences:
                expected = [int(part.split()[0]) for part in re.split("[|;]", inference.instance.text)]
                if isinstance(inference.result, Answered):
                    assert inference.result.answer == expected, seed
                    answered += 1
                else:
                    assert isinstance(inference.result, RequestError), seed
                    refused += 1
    finally:
        logging.disable(logging.NOTSET)
    assert min(answered, refused) > CASES


def test_a_planner_that_fails_costs_only_its_own_model_its_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(Faults(0))
    reader._faults.kind = "none"
    fine = Faults(0)
    fine.kind = "none"
    members = [member(fine, reader), member(fine, reader)]
    graphs = Graphs(members)

    class Failing:
        @staticmethod
        def plan(_: Sequence[int]) -> Any:
            raise ValueError("planned nothing")

    monkeypatch.setattr(graphs._schedule, "_planners", [Failing, graphs._schedule._planners[1]])
    parts = [pipeline.prepare(each, Request((Instance("3 3"),), {}, "json")) for each in members]
    inferences = [inference for part in parts for inference in part.inferences]
    pipeline.tokenize(inferences)
    graphs.run(graphs.plan(inferences))
    pipeline.answer(inferences)
    failed, answered = (inference.result for inference in inferences)
    assert isinstance(failed, RequestError)
    assert failed.status == 500
    assert isinstance(answered, Answered)
    assert answered.answer == [3]


def test_equal_rows_of_a_model_are_computed_once() -> None:
    faults = Faults(0)
    faults.kind = "none"
    reader = Reader(faults)
    members = [member(faults, reader), member(faults, reader)]
    parts = [
        pipeline.prepare(members[0], Request((Instance("3 3|4"), Instance("3 3")), {}, "json")),
        pipeline.prepare(members[1], Request((Instance("3 3"),), {}, "json")),
    ]
    inferences = [inference for part in parts for inference in part.inferences]
    pipeline.tokenize(inferences)
    plan = Graphs(members).plan(inferences)
    assert ([row.ids for row in plan.rows], plan.repeats) == ([[3, 3], [4], [3, 3]], 1)
    assert [[number for _, number in uses] for uses in plan.uses] == [[0, 0], [1], [0]]
