"""Archives in S3, which pods load when they start."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from handlers.worker.archive.artifact import sha256_of
from marina.archive.describe import Archive
from marina.errors import DeployError

# names of buckets, and the characters of keys that need no quoting anywhere
# (https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html)
FOLDER = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_.-]+)*/?")
DIGITS = 12  # of the sha256, in the name of an object


class StoredArchive(NamedTuple):
    """An archive in S3.

    Attributes:
        name: of its model.
        path: where it is here.
        url: its object, whose name has the first digits of the checksum, so that each version has an object of its own.
        sha256: its checksum.
    """

    name: str
    path: str
    url: str
    sha256: str


def stored_archives(archives: Sequence[Archive], folder: str) -> list[StoredArchive]:
    """The objects of archives in a folder of S3, as s3://BUCKET/FOLDER.

    Raises:
        DeployError: the folder is not one of S3.
    """
    if not FOLDER.fullmatch(folder):
        raise DeployError(
            f"--archives {folder} is not a folder of S3", "write s3://BUCKET/FOLDER with letters, digits, _, . and -"
        )
    stored = []
    for archive in archives:
        sha256 = sha256_of(archive.path)
        url = f"{folder.rstrip('/')}/{archive.name}-{sha256[:DIGITS]}.mar"
        stored.append(StoredArchive(archive.name, f"model_store/{archive.path.name}", url, sha256))
    return stored
