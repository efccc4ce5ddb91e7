"""How many instances to deploy, and when to add one: from the plan.json of `marina plan --write`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from marina.archive.describe import Archive
from marina.errors import DeployError
from marina.server.hosts.table import HostName

MAX_INSTANCES_FACTOR = 2  # autoscaling may start this many times the instances of the peak


class Replicas(NamedTuple):
    """Numbers of pods or tasks: at first, at least and at most, and the CPU percentage at which autoscaling adds one.

    The defaults are for deployments without a plan: two, so that one can be lost or replaced.
    """

    wanted: int = 2
    least: int = 2
    most: int = 10
    cpu_percent: int = 60


@dataclass(frozen=True)
class PlannedServing:
    """How the plan serves its models; lists have an entry for each model."""

    core_groups: list[str]
    batch_size: int


@dataclass(frozen=True)
class Scale:
    """The part of a plan about instances.

    Attributes:
        models: names of the models.
        host: what carries the workers.
        instance_type: the instance type of EC2; None for machines like the one that planned.
        cores: the cores of an instance.
        instances, least_instances: the number of instances for the peak, and for the quietest hour.
        calls_per_minute: calls of each model that one instance gets when another is to be added.
        under_way: requests that one instance then has at the same time, of all models.
        busy: the share of its cores that are then busy.
        choice: how the models are served.
    """

    models: list[str]
    host: HostName
    instance_type: str | None
    cores: int
    instances: int
    least_instances: int
    calls_per_minute: Mapping[str, int]
    under_way: float
    busy: float
    choice: PlannedServing

    @property
    def max_instances(self) -> int:
        """The maximum number of instances that autoscaling may start."""
        return MAX_INSTANCES_FACTOR * self.instances

    @property
    def replicas(self) -> Replicas:
        """The instances as pods or tasks."""
        percent = max(1, round(100 * self.busy))
        return Replicas(self.instances, self.least_instances, self.max_instances, percent)


_SCALE = TypeAdapter(Scale)


def read_scale(path: Path, archives: Sequence[Archive], host: str | None = None) -> Scale:
    """Read a plan for archives that share instances.

    Args:
        path: the plan.
        archives: the archives.
        host: what carries the workers; None for that of the plan, or one that no plan is made for.

    Raises:
        DeployError: the file is no plan, is for other models or another host, or the archives were packed with other
            settings.
    """
    try:
        scale = _SCALE.validate_python(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a plan of this release"
        raise DeployError(
            f"{path} cannot be read: {reason}", "marina plan ... --write makes build/plan/plan.json"
        ) from None
    if set(scale.models) != {archive.name for archive in archives}:
        raise DeployError(
            f"{path} is a plan for {' and '.join(scale.models)}, which share instances, not for "
            f"{' and '.join(archive.name for archive in archives)}",
            "deploy the models of one plan together, or plan again",
        )
    if host not in (None, scale.host):
        raise DeployError(
            f"{path} is a plan for the host {scale.host}, not for {host}",
            "leave --host and MARINA_HOST out, or plan again",
        )
    planned_groups = dict(zip(scale.models, scale.choice.core_groups, strict=True))
    for archive in archives:
        groups, batch_size = ",".join(map(str, archive.groups)), archive.config["batchSize"]
        if (groups, batch_size) != (planned_groups[archive.name], scale.choice.batch_size):
            raise DeployError(
                f"{archive.path} has core groups {groups or 'of the machine'} and batches of {batch_size}, and the "
                f"plan {planned_groups[archive.name]} and {scale.choice.batch_size}",
                f"marina archive {archive.name}",
            )
    return scale
