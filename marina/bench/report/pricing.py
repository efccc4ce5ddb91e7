"""The cost of inferences, from the hourly price of an instance."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from marina.errors import SpecError
from marina.fields import read_fields

BUILT_IN_FILE = Path(__file__).parent / "instances.yaml"


class InstanceType(BaseModel):
    """One instance type.

    Attributes:
        chips, cores: number of accelerators and of their NeuronCores; 0 if there are none.
        vcpu, memory_gib: virtual CPUs and memory of the host.
        on_demand, reserved: USD per hour; None if unknown.
    """

    model_config = ConfigDict(extra="forbid")
    chips: int = 0
    cores: int = 0
    vcpu: int
    memory_gib: float
    on_demand: float | None = None
    reserved: float | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    basis: str
    read: Any = None
    instances: dict[str, InstanceType]


@dataclass(frozen=True)
class Price:
    """USD per hour of an instance, and the source of the figure."""

    instance: str
    per_hour: float
    basis: str


def cost_per_1m(per_hour: float, throughput: float) -> float | None:
    """USD per million inferences: per_hour * 1e6 / (3600 * throughput), as in NeuronPerf and AWS's tables.

    Args:
        per_hour: USD per hour of the instance.
        throughput: inferences per second of the whole instance.

    Returns:
        The cost, or None if nothing was answered.
    """
    return per_hour * 1e6 / (3600 * throughput) if throughput > 0 else None


def price_of(instance: str | None, per_hour: float | None, project: Path) -> Price | None:
    """The price for calculating costs; None if neither an instance nor a price is given.

    Args:
        instance: an instance type, for example inf2.xlarge.
        per_hour: USD per hour, instead of the listed on-demand price.
        project: folder of the project; its instances.yaml, if it has one, takes precedence over Marina's own.

    Raises:
        SpecError: the type is unknown and no price is given, or the file cannot be read.
    """
    if per_hour is not None:
        return Price(instance or "this machine", per_hour, "as given")
    if instance is None:
        return None
    prices = {
        name: Price(name, entry.on_demand, f"on demand; {basis}")
        for name, (entry, basis) in read_instances(project).items()
        if entry.on_demand is not None
    }
    if instance not in prices:
        raise SpecError(
            f"no price is known for {instance}; give one with --price USD, or write it into instances.yaml. "
            f"Known are: {', '.join(sorted(prices))}"
        )
    return prices[instance]


def read_instances(project: Path) -> dict[str, tuple[InstanceType, str]]:
    """Every known instance type, and the source of its figures.

    Args:
        project: folder of the project; its instances.yaml, if it has one, takes precedence over Marina's own.

    Raises:
        SpecError: a file cannot be read.
    """
    instances: dict[str, tuple[InstanceType, str]] = {}
    for path in (BUILT_IN_FILE, project / "instances.yaml"):
        if path.exists():
            file = read_fields(path, _File)
            instances |= {name: (entry, file.basis) for name, entry in file.instances.items()}
    return instances
