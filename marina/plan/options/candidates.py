"""The candidates for deployment: every way to serve the models on one kind of instance."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from marina.plan.simulator.system import WorkerModel
from marina.plan.simulator.uncertainty import CERTAIN, Uncertainty
from marina.server.hosts.table import HOSTS

BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64)


class Variant(NamedTuple):
    """One way to compile a model.

    Attributes:
        engine, precision, shapes: of its graphs.
        costs: of a worker, by its number of cores.
        megabytes: of a worker's memory.
        bounds: for an estimate, how much faster and slower graphs may be, as factors of their times; None if measured.
        basis: what is not measured here; "" if nothing.
        uncertainty: of simulations with these costs.
    """

    engine: str
    precision: str
    shapes: tuple[str, ...]
    costs: dict[int, WorkerModel]
    megabytes: float
    bounds: tuple[float, float] | None = None
    basis: str = ""
    uncertainty: Uncertainty = CERTAIN


class MachineType(NamedTuple):
    """A kind of instance, and what a model costs on it.

    Attributes:
        name: `here`, or an instance type.
        host: what carries workers there.
        cores: that workers compute on.
        memory_gib: of the host.
        per_hour: USD; None if unknown.
        contention, stolen, entering, timer: see `Machines`.
        exclusive: whether a core belongs to one worker.
        variants: of each model.
    """

    name: str
    host: str
    cores: int
    memory_gib: float
    per_hour: float | None
    contention: float
    stolen: float
    entering: float
    timer: float
    exclusive: bool
    variants: tuple[tuple[Variant, ...], ...]


@dataclass(frozen=True)
class Candidate:
    """One way to serve the models on one kind of instance; fields with several values have one for each model."""

    place: MachineType
    variants: tuple[Variant, ...]
    groups: tuple[tuple[int, ...], ...]
    batch_size: int
    delay_ms: int

    @property
    def basis(self) -> str:
        """What is not measured here; "" if nothing."""
        return " and ".join(dict.fromkeys(variant.basis for variant in self.variants if variant.basis))

    @property
    def worst_slowdown(self) -> float:
        """How much slower than predicted it may be, as a factor."""
        return max(variant.bounds[1] if variant.bounds else 1.0 for variant in self.variants)

    @property
    def workers(self) -> int:
        """Of an instance."""
        return sum(map(len, self.groups))

    @property
    def megabytes(self) -> float:
        """Memory of the workers of an instance."""
        return sum(variant.megabytes * len(groups) for variant, groups in zip(self.variants, self.groups, strict=True))


def candidates_of(place: MachineType) -> Iterator[Candidate]:
    """Every way to serve the models on an instance: variants, core groups, batch sizes and delays."""
    models, delays = len(place.variants), HOSTS[place.host].delays_ms
    for variants in itertools.product(*place.variants):
        for groups in _groups(place, variants, models):
            for batch_size, delay in itertools.product(BATCH_SIZES, delays):
                if batch_size == 1 and delay != delays[0]:
                    continue
                candidate = Candidate(place, variants, groups, batch_size, delay)
                if candidate.megabytes <= place.memory_gib * 1024 * 0.9:
                    yield candidate


def _groups(place: MachineType, variants: Sequence[Variant], models: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Core groups of each model: equal ones, which divide the cores; several models share cores if they can."""
    calibrated_sizes = set.intersection(*(set(variant.costs) for variant in variants))
    share = place.cores // models if place.exclusive else place.cores
    for size in sorted(calibrated_sizes, reverse=True):
        if size <= share:
            yield ((size,) * (share // size),) * models
