"""Unpacked archives, and loading one of their models in this process: a worker's code without a server."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import yaml

from handlers.worker.archive.artifact import ARTIFACT_FOLDER, CONFIG_FILE, Artifact, read_artifact
from handlers.worker.archive.contents import Contents, read_contents
from handlers.worker.engines import engine_module
from handlers.worker.members.loading import load_members
from handlers.worker.members.member import Member
from handlers.worker.placement import Placement, core_groups
from handlers.worker.settings import MemberSettings, Settings, read_settings
from handlers.worker.tasks import TASKS
from marina.errors import MarinaError


class Unpacked(NamedTuple):
    """The folder of an unpacked archive: what the archive holds, and how it is served."""

    folder: Path
    contents: Contents
    settings: Settings


def read_unpacked(folder: Path, model: str | None) -> Unpacked:
    """Read what an unpacked archive holds, and choose one model of it.

    Args:
        folder: from `handlers.worker.archive.unpack.unpack`.
        model: the name of a model of a bundle; None if the archive holds only one.

    Raises:
        ArtifactError: the archive is damaged.
        MarinaError: there is no such model, or the archive is a bundle and none is named.
    """
    contents = read_contents(folder / ARTIFACT_FOLDER)
    settings = read_settings(yaml.safe_load((folder / CONFIG_FILE).read_text(encoding="utf-8")))
    model_names = ", ".join(contents.folders)
    if model is None and contents.bundle:
        raise MarinaError(
            f"{contents.name} is a bundle of {model_names}", f"name one of them, as {contents.name}:MODEL"
        )
    model_name = model or contents.name
    if model_name not in contents.folders:
        raise MarinaError(f"{contents.name} has no model {model_name!r}; it has {model_names}")
    folders = {model_name: contents.folders[model_name]}
    return Unpacked(
        folder, contents._replace(folders=folders, stored={model_name: contents.stored[model_name]}), settings
    )


def artifact_and_settings(unpacked: Unpacked) -> tuple[Artifact, MemberSettings]:
    """The description of the model's artifact, and how the model is served; ArtifactError if it is damaged."""
    ((name, folder),) = unpacked.contents.folders.items()
    artifact = read_artifact(unpacked.folder / ARTIFACT_FOLDER / folder, unpacked.contents.stored[name])
    return artifact, unpacked.settings.members[name]


def load(unpacked: Unpacked, groups: str | None) -> tuple[Member, Placement]:
    """Load the model on a core group of this process, and check it on its golden rows.

    Args:
        unpacked: from `read_unpacked`.
        groups: core groups instead of the archive's own, in the format of NEURONCORE_GROUP_SIZES.

    Raises:
        PlacementError: there is no such core group, or other processes hold all of them.
        ArtifactError, GoldenError: the model cannot be used.
    """
    settings = unpacked.settings._replace(core_groups=groups or unpacked.settings.core_groups)
    members, _, placement = load_members(unpacked.folder / ARTIFACT_FOLDER, unpacked.contents, settings, TASKS)
    return members[0], placement


def usable_cores(engine: str) -> int:
    """The number of cores of an engine that this process may use; PlacementError if there are none."""
    return len(engine_module(engine).CORES.usable())


def cores_per_process(unpacked: Unpacked, requested_groups: str | None) -> int:
    """The number of cores of a process on any machine; PlacementError if the sizes cannot be parsed."""
    return core_groups(requested_groups or unpacked.settings.core_groups).preferred[0]


def core_group_sizes(unpacked: Unpacked, requested_groups: str | None) -> tuple[int, ...]:
    """The sizes of the core groups to compute on, each by one process.

    They are those of NEURONCORE_GROUP_SIZES, else `requested_groups`, else the archive's own, else a group per core.

    Raises:
        PlacementError: the sizes cannot be parsed, or there are no cores.
    """
    sizes = core_groups(requested_groups or unpacked.settings.core_groups).sizes
    return sizes or (1,) * usable_cores(unpacked.contents.engine)
