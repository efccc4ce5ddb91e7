"""What decides the answers of a job, and whether a job that goes on is still the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from handlers.worker.values import Json
from marina.archive.read import fingerprint_of
from marina.errors import MarinaError
from marina.score.layout import AnswerOptions
from marina.score.values import RowSource, Shard

# the parts of a description, as messages name them
PART_NAMES = {
    "archive": "the archive",
    "model": "the model",
    "asked": "what is asked for",
    "format": "the format of the answers",
    "limit": "--limit",
    "source": "the input",
}


def describe(
    archive: Path, model: str | None, options: AnswerOptions, source: RowSource, file_format: str, limit: int | None
) -> dict[str, Json]:
    """What decides the answers of a job, as JSON."""
    description = {
        "archive": fingerprint_of(archive),
        "model": model,
        "asked": vars(options),
        "format": file_format,
        "limit": limit,
        "source": source.state(),
    }
    document: dict[str, Json] = json.loads(json.dumps(description))
    return document


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
