"""How a worker serves: the `handler:` section of the archive's model-config.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from handlers.worker.errors import ArtifactError
from handlers.worker.request.instances import Limits


class Settings(NamedTuple):
    """Serving settings; they can change without compiling again.

    long_text is "truncate", "reject" or "window". parameters are the model's own defaults for what
    requests may set. core_groups is written as NEURONCORE_GROUP_SIZES is, for
    example "2,2"; None means one worker that uses every CPU core that it may run on, or one
    NeuronCore. mode is "core-per-worker", "pipeline" or "data-parallel", as the spec says. version is the archive's.
    """

    long_text: str
    core_groups: str | None
    mode: str
    limits: Limits
    parameters: Mapping[str, Any]
    version: str


def read_settings(config: Mapping[str, Any]) -> Settings:
    """Read the settings that the archive carries.

    Args:
        config: the whole model-config.yaml.

    Raises:
        ArtifactError: the section or one of its fields is missing.
    """
    try:
        section = config["handler"]
        limits = Limits(
            section["max_instances"], section["max_characters"], section["max_windows"], section["max_body_bytes"]
        )
        named = {name: section[name] for name in ("long_text", "core_groups", "mode", "parameters", "version")}
        return Settings(limits=limits, **named)
    except (KeyError, TypeError) as error:
        raise ArtifactError(f"model-config.yaml lacks {error} for the handler; pack a new archive") from None
