"""Workloads to predict and measure: random ones, or those of a file."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import yaml
from pydantic import TypeAdapter, ValidationError

from marina.errors import SpecError
from marina.server.hosts.table import HOSTS

SHARES = (0.10, 0.95)  # of capacity
INSTANCES = (1, 1, 1, 2, 4, 8, 16, 32)
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 32, 64)
# texts of the built-in mix by their number of tokens
LENGTHS = {"mix": (0, 1000), "short": (0, 16), "long": (32, 1000), "middle": (12, 40)}
TWO_MODEL_INTERVAL = 5  # every fifth workload has two models


@dataclass(frozen=True)
class Case:
    """One workload, and how it is served; lists have an entry for each model.

    Attributes:
        number: number of the case.
        models: names of models.
        instances: texts per request.
        lengths: source of texts: a key of `LENGTHS`, or a file, as `marina bench --texts` takes it.
        groups: core groups of each model.
        batch_size, delay_ms: batch size and batch delay; the host direct has no delay.
        share: rate of requests, as a share of the capacity.
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
        """The workload in a line."""
        texts = " and ".join(
            f"{instances} texts ({kind})" for instances, kind in zip(self.instances, self.lengths, strict=True)
        )
        groups = ",".join(map(str, self.groups))
        delay = f", delay {self.delay_ms}" if self.delay_ms else ""
        return f"{texts}, groups {groups}, batch {self.batch_size}{delay}, {self.share:.0%}"


def draw_cases(models: Sequence[str], cores: int, count: int, seeds: Sequence[int], host: str) -> list[Case]:
    """Random workloads of each seed: the same for the same seed.

    Args:
        models: names of models; workloads have the first, or the first two.
        cores: cores of the machine.
        count: number of workloads, which the seeds share evenly.
        seeds: seeds of the random numbers.
        host: what carries the workers.
    """
    generators = [random.Random(seed) for seed in seeds]
    cases = []
    for number in range(count):
        rng = generators[number * len(seeds) // count]
        has_two_models = len(models) > 1 and number % TWO_MODEL_INTERVAL == TWO_MODEL_INTERVAL - 1
        names = tuple(models[: 2 if has_two_models else 1])
        cases.append(
            Case(
                number=number,
                models=names,
                instances=tuple(rng.choice(INSTANCES) for _ in names),
                lengths=tuple(rng.choice(list(LENGTHS)) for _ in names),
                groups=rng.choice([(cores,), (1,) * cores]),
                batch_size=rng.choice(BATCH_SIZES),
                delay_ms=rng.choice(HOSTS[host].delays_ms[:3]),
                share=round(rng.uniform(*SHARES), 3),
            )
        )
    return cases


_CASE = TypeAdapter(Case)


def read_cases(path: Path, model_names: Sequence[str], host: str) -> list[Case]:
    """The workloads of a YAML file: a list, each with the fields of `Case` except its number.

    Args:
        path: the file.
        model_names: names of models.
        host: what carries the workers.

    Raises:
        SpecError: the file cannot be read, or a workload is wrong; the message names its place.
    """
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise SpecError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(entries, list) or not entries:
        raise SpecError(f"{path} must be a list of workloads")
    field_names = {field.name for field in fields(Case)} - {"number"}
    return [_read_case(number, entry, field_names, model_names, path, host) for number, entry in enumerate(entries)]


def _read_case(
    number: int, entry: object, field_names: set[str], model_names: Sequence[str], path: Path, host: str
) -> Case:
    where = f"{path}: workload {number + 1}"
    if not isinstance(entry, dict) or set(entry) != field_names:
        raise SpecError(f"{where} must have exactly the fields {', '.join(sorted(field_names))}")
    try:
        case = _CASE.validate_python({"number": number, **entry})
    except ValidationError as error:
        first_error = error.errors()[0]
        raise SpecError(f"{where}: {'.'.join(map(str, first_error['loc']))}: {first_error['msg']}") from None
    if not case.models or not set(case.models) <= set(model_names):
        raise SpecError(f"{where} must have models of these: {', '.join(model_names)}")
    if not len(case.models) == len(case.instances) == len(case.lengths):
        raise SpecError(f"{where} must have instances and lengths for each of its models")
    if not case.groups or min(*case.groups, *case.instances, case.batch_size) < 1:
        raise SpecError(f"{where}: groups, instances and batch_size are at least 1")
    waits = HOSTS[host].delays_ms[0] > 0
    if case.delay_ms < 0 or (case.delay_ms > 0) != waits:
        raise SpecError(f"{where}: with the host {host}, delay_ms is {'at least 1' if waits else '0'}")
    if not 0 < case.share < 1:
        raise SpecError(f"{where}: share is between 0 and 1, of the predicted capacity")
    return case
