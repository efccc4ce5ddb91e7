"""Random workloads to predict and measure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

SHARES = (0.10, 0.95)  # of capacity
INSTANCES = (1, 1, 1, 2, 4, 8, 16, 32)
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 32, 64)
DELAYS_MS = (1, 1, 2, 5)
# texts of the built-in mix by their number of tokens
LENGTHS = {"mix": (0, 1000), "short": (0, 16), "long": (32, 1000), "middle": (12, 40)}
TOGETHER = 5  # every fifth workload has two models


@dataclass(frozen=True)
class Case:
    """One workload, and how it is served; lists have an entry for each model.

    Attributes:
        number: of the case.
        models: names.
        instances: texts of a request.
        lengths: which texts, a key of `LENGTHS`.
        groups: core groups of each model.
        batch_size, delay_ms: of TorchServe.
        share: of the capacity that comes.
    """

    number: int
    models: tuple[str, ...]
    instances: tuple[int, ...]
    lengths: tuple[str, ...]
    groups: tuple[int, ...]
    batch_size: int
    delay_ms: int
    share: float

    def describe(self) -> str:
        """In a line."""
        many = " and ".join(f"{n} texts ({kind})" for n, kind in zip(self.instances, self.lengths))
        groups = ",".join(map(str, self.groups))
        return f"{many}, groups {groups}, batch {self.batch_size}, delay {self.delay_ms}, {self.share:.0%}"


def draw_cases(models: Sequence[str], cores: int, count: int, seed: int) -> list[Case]:
    """Random workloads: the same for the same seed.

    Args:
        models: names; workloads have the first, or the first two.
        cores: of the machine.
        count: of workloads.
        seed: of chance.
    """
    chance = random.Random(seed)
    cases = []
    for number in range(count):
        together = len(models) > 1 and number % TOGETHER == TOGETHER - 1
        names = tuple(models[: 2 if together else 1])
        cases.append(
            Case(
                number=number,
                models=names,
                instances=tuple(chance.choice(INSTANCES) for _ in names),
                lengths=tuple(chance.choice(list(LENGTHS)) for _ in names),
                groups=chance.choice([(cores,), (1,) * cores]),
                batch_size=chance.choice(BATCH_SIZES),
                delay_ms=chance.choice(DELAYS_MS),
                share=round(chance.uniform(*SHARES), 3),
            )
        )
    return cases
