"""What a worker of an archive needs, as measured on this machine: a file beside the archive, never in it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from marina.archive.read import fingerprint_of
from marina.files import read_object, write_json

SUFFIX = ".footprint.json"


@dataclass(frozen=True)
class Footprint:
    """What a worker of an archive needs with the host `direct`.

    Attributes:
        resting_bytes: memory of a worker that is READY and idle, without what workers share.
        peak_bytes: the most that it took, while it loaded and with the largest batches.
        shared_bytes: the mapped files, which all workers of a machine share.
        ready_s: seconds from its start until it was READY.
        cores: CPU cores that it computed on.
        processor: on which it was measured.
    """

    resting_bytes: int
    peak_bytes: int
    shared_bytes: int
    ready_s: float
    cores: int
    processor: str


_FOOTPRINT = TypeAdapter(Footprint)


def footprint_file(archive: Path) -> Path:
    """The file with the footprint of an archive."""
    return archive.with_suffix(SUFFIX)


def read_footprint(archive: Path) -> Footprint | None:
    """The footprint of an archive; None if it was not measured, or is that of other contents."""
    document = read_object(footprint_file(archive)) or {}
    if document.pop("archive", None) != fingerprint_of(archive):
        return None
    try:
        return _FOOTPRINT.validate_python(document)
    except ValidationError:
        return None


def write_footprint(archive: Path, fingerprint: str | None, footprint: Footprint | None) -> None:
    """Write the footprint of the contents with this fingerprint beside their archive, atomically; None removes it."""
    if footprint is None:
        footprint_file(archive).unlink(missing_ok=True)
    else:
        write_json(footprint_file(archive), {"archive": fingerprint, **asdict(footprint)})
