"""Ways to answer, measured in turn: round after round, each in an order of its own, one served at a time."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from marina.bench.load import Load
from marina.bench.measured import Measured
from marina.bench.result import Entry
from marina.bench.served import asked_how, check, measure_served
from marina.bench.stage import Stage
from marina.bench.texts import Asked
from marina.console import Progress
from marina.spec import Spec

USUAL, MARINA = "the usual handler", "Marina"


class Way(NamedTuple):
    """One row of a table.

    Attributes:
        configuration: what tells it from others; `run` may know more.
        run: measures one round; gives what it found out about the configuration, and the figures.
    """

    configuration: dict[str, Any]
    run: Callable[[], tuple[dict[str, Any], Measured]]


def served_way(stage: Stage, configuration: dict[str, Any], archive: Spec | str, load: Load, asked: Asked) -> Way:
    """A way through TorchServe.

    Args:
        stage: where to serve.
        configuration: what tells it from others.
        archive: a spec to compile and pack, or the name of an archive in the stage's model store.
        load, asked: how it is asked, and what.
    """

    def run() -> tuple[dict[str, Any], Measured]:
        if isinstance(archive, Spec):
            stage.archive(archive)
        served = stage.serve(archive.name if isinstance(archive, Spec) else archive)
        check(served, asked)
        return {**served.configuration, **asked_how(load, asked)}, measure_served(served, asked, load)

    return Way(configuration, run)


def measure_ways(ways: list[Way], rounds: int, progress: Progress) -> list[Entry]:
    """Every way in every round; one entry a way, in their order."""
    found: list[list[Measured]] = [[] for _ in ways]
    told: list[dict[str, Any]] = [{} for _ in ways]
    for number in range(rounds):
        for done, place in enumerate(random.Random(number).sample(range(len(ways)), len(ways))):
            name = ", ".join(str(value) for value in ways[place].configuration.values())
            progress(f"round {number + 1} of {rounds}: {name}", number * len(ways) + done, rounds * len(ways))
            told[place], measured = ways[place].run()
            found[place].append(measured)
    return [Entry({**more, **way.configuration}, measured) for way, more, measured in zip(ways, told, found)]
