"""Workloads to predict and measure: random ones, or those of a file."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import yaml
from pydantic import TypeAdapter, ValidationError

from marina.errors import SpecError

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
        lengths: which texts: a key of `LENGTHS`, or a file, as `marina bench --texts` takes it.
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
        many = " and ".join(f"{n} texts ({kind})" for n, kind in zip(self.instances, self.lengths, strict=True))
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


_CASE = TypeAdapter(Case)


def read_cases(path: Path, known: Sequence[str]) -> list[Case]:
    """The workloads of a YAML file: a list, each with the fields of `Case` except its number.

    Args:
        path: the file.
        known: names of models.

    Raises:
        SpecError: the file cannot be read, or a workload is wrong; the message names its place.
    """
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise SpecError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(entries, list) or not entries:
        raise SpecError(f"{path} must be a list of workloads")
    wanted = {field.name for field in fields(Case)} - {"number"}
    return [_read_case(number, entry, wanted, known, path) for number, entry in enumerate(entries)]


def _read_case(number: int, entry: object, wanted: set[str], known: Sequence[str], path: Path) -> Case:
    where = f"{path}: workload {number + 1}"
    if not isinstance(entry, dict) or set(entry) != wanted:
        raise SpecError(f"{where} must have exactly the fields {', '.join(sorted(wanted))}")
    try:
        case = _CASE.validate_python({"number": number, **entry})
    except ValidationError as error:
        first = error.errors()[0]
        raise SpecError(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if not case.models or not set(case.models) <= set(known):
        raise SpecError(f"{where} must have models of these: {', '.join(known)}")
    if not len(case.models) == len(case.instances) == len(case.lengths):
        raise SpecError(f"{where} must have instances and lengths for each of its models")
    if not case.groups or min(*case.groups, *case.instances, case.batch_size, case.delay_ms) < 1:
        raise SpecError(f"{where}: groups, instances, batch_size and delay_ms are at least 1")
    if not 0 < case.share < 1:
        raise SpecError(f"{where}: share is between 0 and 1, of the predicted capacity")
    return case
