"""What the artifact folder of an archive holds: one artifact, or one per member of a bundle and `bundle.json`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from handlers.worker.artifact import ARTIFACT_FILE, REMEDY, read_json
from handlers.worker.errors import ArtifactError

BUNDLE_FILE = "bundle.json"


class Contents(NamedTuple):
    """What the artifact folder of an archive holds.

    Attributes:
        name: the archive's name.
        engine: the engine of all artifacts.
        folders: the folder of each artifact by its name, relative to the artifact folder; "" if there is only one.
        stored: for each artifact, where files are that a bundle stores once, as in `Artifact`.
        bundle: whether it is a bundle.
    """

    name: str
    engine: str
    folders: Mapping[str, str]
    stored: Mapping[str, Mapping[str, str]]
    bundle: bool


def contents_of(document: Mapping[str, Any], bundle: bool) -> Contents:
    """The contents that a `bundle.json` describes, or the `artifact.json` of an archive that is no bundle.

    Raises:
        ArtifactError: a field is missing.
    """
    try:
        name, engine = str(document["name"]), str(document["engine"])
        stored = {str(member): dict(own) for member, own in document["members"].items()} if bundle else {name: {}}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"{BUNDLE_FILE if bundle else ARTIFACT_FILE} is not complete ({error!r}); {REMEDY}"
        ) from None
    return Contents(name, engine, {member: member if bundle else "" for member in stored}, stored, bundle)


def read_contents(folder: Path) -> Contents:
    """What the artifact folder of an archive holds; ArtifactError if it cannot be read."""
    bundle = (folder / BUNDLE_FILE).exists()
    return contents_of(read_json(folder / (BUNDLE_FILE if bundle else ARTIFACT_FILE)), bundle)
