"""Whether a job that goes on is still the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from handlers.worker.values import Json
from marina.errors import MarinaError
from marina.score.values import Shard

# the parts of a description, as messages name them
PART_NAMES = {
    "archive": "the archive",
    "model": "the model",
    "asked": "what is asked for",
    "format": "the format of the answers",
    "limit": "--limit",
    "source": "the input",
}


def check_same(stored: Mapping[str, Json], current: Mapping[str, Json], output_name: str) -> None:
    """Check that a stored description is that of the current job; MarinaError says what changed."""
    for part, name in PART_NAMES.items():
        old, new = stored.get(part), current.get(part)
        if old != new:
            raise MarinaError(
                f"{name} has changed since the answers in {output_name} were begun{_difference(old, new)}",
                "add --restart to answer everything again, or give another --output",
            )


def _difference(old: Json, new: Json) -> str:
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return f": from {old} to {new}" if not (isinstance(old, str) and len(old) > 40) else ""
    key = next(key for key in {**old, **new} if old.get(key) != new.get(key))
    if key not in new:
        return f": {key} is gone"
    if key not in old:
        return f": {key} is new"
    return f": {key}{_difference(old[key], new[key])}"


def shards_from(documents: Iterable[Mapping[str, Json]]) -> list[Shard]:
    """Shards from the documents that a sink has stored."""
    return [Shard(**document) for document in documents]
