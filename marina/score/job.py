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

# what a person calls the parts of a description
NAMES = {
    "archive": "the archive",
    "model": "the model",
    "asked": "what is asked for",
    "format": "the format of the answers",
    "limit": "--limit",
    "source": "the input",
}


def describe(
    archive: Path, model: str | None, asked: AnswerOptions, source: RowSource, kind: str, limit: int | None
) -> dict[str, Json]:
    """What decides the answers of a job, as JSON."""
    description = {
        "archive": fingerprint_of(archive),
        "model": model,
        "asked": vars(asked),
        "format": kind,
        "limit": limit,
        "source": source.state(),
    }
    plain: dict[str, Json] = json.loads(json.dumps(description))
    return plain


def check_same(before: Mapping[str, Json], now: Mapping[str, Json], where: str) -> None:
    """Refuse to go on with a job that began with another description; MarinaError says what changed."""
    for part, name in NAMES.items():
        old, new = before.get(part), now.get(part)
        if old != new:
            raise MarinaError(
                f"{name} has changed since the answers in {where} were begun{_difference(old, new)}",
                "add --restart to answer everything again, or give another --output",
            )


def _difference(old: Json, new: Json) -> str:
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return f": from {old} to {new}" if not (isinstance(old, str) and len(old) > 40) else ""
    name = next(name for name in {**old, **new} if old.get(name) != new.get(name))
    if name not in new:
        return f": {name} is gone"
    if name not in old:
        return f": {name} is new"
    return f": {name}{_difference(old[name], new[name])}"


def shards_from(documents: Iterable[Mapping[str, Json]]) -> list[Shard]:
    """Shards as they were kept."""
    return [Shard(**document) for document in documents]
