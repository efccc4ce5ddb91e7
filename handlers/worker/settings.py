"""How a worker serves: the `handler:` section of the archive's model-config.yaml."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from handlers.worker.errors import ArtifactError
from handlers.worker.request.instances import RequestLimits

# fields that `read_settings` does not take by name from the section of the handler
OTHER_FIELDS = ("members", "response_timeout_s", "batch_size", "queue_size")


class MemberSettings(NamedTuple):
    """Settings of one model of an archive.

    long_text is "truncate", "reject" or "window". parameters are the model's defaults for the parameters of requests.
    """

    long_text: str
    limits: RequestLimits
    parameters: Mapping[str, Any]


class Settings(NamedTuple):
    """Serving settings; they can change without compiling again.

    core_groups has the format of NEURONCORE_GROUP_SIZES, for example "2,2". If it is None, there is
    one worker, which uses every CPU core that it may run on, or one NeuronCore.
    mode is "core-per-worker", "pipeline" or "data-parallel", as in the spec. version is the archive's version.
    server_timing is true if responses have a Server-Timing header. deadline_ms is the age in milliseconds at which
    a request is not computed any more, response_timeout_s the seconds after which the host gives up a worker that
    does not answer, max_batch_ms the estimated milliseconds of work in a batch, batch_size
    the number of requests that TorchServe hands over at once, and queue_size the places in its queue for each worker.
    members has the settings of each model of the archive by its name; an archive that is no bundle has one.
    """

    core_groups: str | None
    mode: str
    version: str
    server_timing: bool
    deadline_ms: float
    response_timeout_s: float
    max_batch_ms: float
    batch_size: int
    queue_size: int
    members: Mapping[str, MemberSettings]


def read_settings(config: Mapping[str, Any]) -> Settings:
    """Read the settings in the archive.

    Args:
        config: the whole model-config.yaml.

    Raises:
        ArtifactError: the section or one of its fields is missing.
    """
    try:
        section = config["handler"]
        fields = {name: section[name] for name in Settings._fields if name not in OTHER_FIELDS}
        members = {name: _member(member_section) for name, member_section in section["members"].items()}
        queue_size = math.ceil(config["jobQueueSize"] / config["minWorkers"])
        return Settings(
            members=members,
            response_timeout_s=config["responseTimeout"],
            batch_size=config["batchSize"],
            queue_size=queue_size,
            **fields,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(f"model-config.yaml lacks {error} for the handler; pack a new archive") from None


def _member(section: Mapping[str, Any]) -> MemberSettings:
    limits = RequestLimits(*(section[f"max_{name}"] for name in RequestLimits._fields))
    return MemberSettings(section["long_text"], limits, section["parameters"])
