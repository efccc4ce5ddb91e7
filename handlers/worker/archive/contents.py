"""The contents of an archive's artifact folder: one artifact, or one per member of a bundle and `bundle.json`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from handlers.worker.archive.artifact import ARTIFACT_FILE, REMEDY, read_json
from handlers.worker.errors import ArtifactError

BUNDLE_FILE = "bundle.json"


class Contents(NamedTuple):
    """The contents of an archive's artifact folder.

    Attributes:
        name: the archive's name.
        engine: the engine of all artifacts.
        folders: the folder of each artifact by name, relative to the artifact folder; "" if there is one artifact.
        stored: for each artifact, the paths of files that a bundle stores once, as in `Artifact`.
        bundle: whether the archive is a bundle.
        chain: the models of a bundle that answer a query with documents one after the other; empty if there are none.
    """

    name: str
    engine: str
    folders: Mapping[str, str]
    stored: Mapping[str, Mapping[str, str]]
    bundle: bool
    chain: tuple[str, ...] = ()


def contents_of(document: Mapping[str, Any], bundle: bool) -> Contents:
    """The contents that a `bundle.json` describes, or the `artifact.json` of an archive that is no bundle.

    Raises:
        ArtifactError: a field is missing.
    """
    try:
        name, engine = str(document["name"]), str(document["engine"])
        stored = {str(member): dict(files) for member, files in document["members"].items()} if bundle else {name: {}}
        chain = tuple(str(member) for member in document.get("chain", ())) if bundle else ()
        if (
            set(chain) - set(stored)
            or not stored
            or not all(_is_inside(member, files) for member, files in stored.items())
        ):
            raise ValueError("a member or one of its files is not in the archive")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"{BUNDLE_FILE if bundle else ARTIFACT_FILE} is not complete ({error!r}); {REMEDY}"
        ) from None
    return Contents(name, engine, {member: member if bundle else "" for member in stored}, stored, bundle, chain)


def _is_inside(member: str, stored: Mapping[str, str]) -> bool:
    """Whether a member is a plain name, and its stored files are in the folder of the bundle."""
    paths = [os.path.normpath(PurePosixPath(member) / path) for path in stored.values()]
    return "/" not in member and member not in (".", "..") and not any(path.startswith(("..", "/")) for path in paths)


def read_contents(folder: Path) -> Contents:
    """The contents of an archive's artifact folder; ArtifactError if they cannot be read."""
    bundle = (folder / BUNDLE_FILE).exists()
    return contents_of(read_json(folder / (BUNDLE_FILE if bundle else ARTIFACT_FILE)), bundle)
