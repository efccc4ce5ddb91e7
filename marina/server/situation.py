"""What it takes to serve an archive on a running server: everything that decides this is here, in the table `STEPS`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from marina.archive.read import fingerprint_of, version_of
from marina.server.management.api import Management
from marina.server.run.state import RunState


class Situation(Enum):
    """What the server has under the name of an archive."""

    ABSENT = "no such model"
    SAME = "this very archive, with all its workers READY"
    FAILED = "its version, with workers that are not READY"
    SAME_VERSION = "another archive of the same version"
    REGISTERED_BY_HAND = "its version, registered without this command"
    OTHER_VERSION = "another version"


class Step(Enum):
    """What is done about it."""

    NOTHING = "nothing"
    REGISTER = "register it"
    BESIDE = "register it beside the old version, make it the default when it is READY, and let the old version finish"
    REPLACE = "refuse new requests with 503, let the old version finish, and register the archive"
    REFUSE = "refuse, and say what to do"


# by the situation, and whether the user allows an outage
STEPS: Mapping[tuple[Situation, bool], Step] = {
    (Situation.ABSENT, False): Step.REGISTER,
    (Situation.ABSENT, True): Step.REGISTER,
    (Situation.SAME, False): Step.NOTHING,
    (Situation.SAME, True): Step.REPLACE,
    (Situation.FAILED, False): Step.REPLACE,
    (Situation.FAILED, True): Step.REPLACE,
    (Situation.SAME_VERSION, False): Step.REFUSE,
    (Situation.SAME_VERSION, True): Step.REPLACE,
    (Situation.REGISTERED_BY_HAND, False): Step.REFUSE,
    (Situation.REGISTERED_BY_HAND, True): Step.REPLACE,
    (Situation.OTHER_VERSION, False): Step.BESIDE,
    (Situation.OTHER_VERSION, True): Step.REPLACE,
}


def situation_of(management: Management, state: RunState, archive: Path) -> Situation:
    """What a server has under the name of an archive; ServerError if it does not answer."""
    name = archive.stem
    if name not in management.models():
        return Situation.ABSENT
    status, registered = management.status(name), state.models.get(name)
    if status.version != version_of(archive):
        return Situation.OTHER_VERSION
    if status.ready < max(1, status.workers):
        return Situation.FAILED
    if registered is None:
        return Situation.REGISTERED_BY_HAND
    return Situation.SAME if registered.fingerprint == fingerprint_of(archive) else Situation.SAME_VERSION
