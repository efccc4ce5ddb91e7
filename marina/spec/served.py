"""The common part of model specs and bundles: the fields of anything that becomes an archive."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, field_validator

from handlers.worker.placement.groups import parse_core_groups
from marina.errors import SpecError
from marina.fields import Section, load_yaml

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class ArchiveSpec(Section):
    """An archive: its name, its version, and the cores of its workers."""

    name: str
    """Name of the model and its archive; also the file's name."""

    version: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    """Version of the archive, as TorchServe shows it. Default: made from the content, so every change has a version of
    its own. Changing it packs again, without compiling."""

    core_groups: str | None = None
    """Cores of each worker, in the format of NEURONCORE_GROUP_SIZES: "1,1" is two workers with one core
    each. The environment variable NEURONCORE_GROUP_SIZES, if set on the server, lists the groups of all
    its models, and overrides it. Default: on CPU engines one worker with all cores, on Neuron engines one
    worker with one core."""

    @field_validator("name")
    @classmethod
    def _archive_name(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError("use letters, digits, '_', '-' and '.', starting with a letter or digit")
        if name.lower().startswith("token"):
            raise ValueError("TorchServe takes /models/token... for its token API; choose another name")
        return name

    @field_validator("version")
    @classmethod
    def _free_version(cls, version: str | None) -> str | None:
        if version in ("all", "draining"):
            raise ValueError(f"{version!r} means something else to the server; choose another")
        return version

    @field_validator("core_groups")
    @classmethod
    def _readable_groups(cls, core_groups: str | None) -> str | None:
        if core_groups is not None:
            parse_core_groups(core_groups)
        return core_groups

    @property
    def workers(self) -> int:
        """The number of worker processes: one per core group."""
        return len(parse_core_groups(self.core_groups)) if self.core_groups else 1


def read_yaml(path: Path) -> dict[str, Any]:
    """The fields of a file of models/; SpecError if it is not YAML with fields."""
    try:
        with path.open(encoding="utf-8") as file:  # a file and no text, so that errors have its name
            fields = load_yaml(file)
    except FileNotFoundError:
        raise SpecError(f"{path} does not exist; models/ holds one YAML file a model") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} is not YAML: {error}") from None
    if not isinstance(fields, dict):
        raise SpecError(f"{path} must hold fields such as 'name: {path.stem}'")
    return fields


def check_name(served: ArchiveSpec, path: Path) -> None:
    """Refuse a file whose name is not its model's; SpecError names both."""
    if served.name != path.stem:
        raise SpecError(f"{path}: name: {served.name!r} must be the file's name, {path.stem!r}")
