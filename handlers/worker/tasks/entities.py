"""Joins labelled tokens into entities, by the rules of transformers' TokenClassificationPipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from handlers.worker.archive.signature import label_text
from handlers.worker.values import Json

Entity = dict[str, Any]


class Token(NamedTuple):
    """One token: its text, the score of each label, its character range in the text and its place in the row.

    position is its index in the row; continues is true if it continues the word of the token before it.
    """

    text: str
    scores: npt.NDArray[np.float64]
    start: int
    end: int
    position: int
    continues: bool


class _Labelled(NamedTuple):
    """A token or a word with its label."""

    label: str
    score: float
    text: str
    start: int
    end: int


def join_tokens(tokens: Sequence[Token], strategy: str, labels: Sequence[Json], library: Any) -> list[Entity]:
    """The entities of one row.

    Args:
        tokens: in order, without special tokens.
        strategy: "none", "simple", "first", "average" or "max".
        labels: the model's labels.
        library: the tokenizer, which joins tokens into text.
    """
    if strategy == "none":
        return [_token_entity(token, labels) for token in tokens]
    labels = [label_text(label) for label in labels]
    if strategy == "simple":
        labelled = [_labelled([token], "first", labels, token.text) for token in tokens]
    else:
        groups = _words(tokens)
        labelled = [_labelled(group, strategy, labels, _text([t.text for t in group], library)) for group in groups]
    return [_entity(group, library) for group in _runs(labelled)]


def join_windows(entities: Sequence[Entity]) -> list[Entity]:
    """The entities of all windows: of two that overlap, the longer is kept; of two equally long, the likelier."""
    joined: list[Entity] = []
    for entity in sorted(entities, key=lambda entity: int(entity["start"])):
        if not joined or not joined[-1]["start"] <= entity["start"] < joined[-1]["end"]:
            joined.append(entity)
        elif _weight(entity) > _weight(joined[-1]):
            joined[-1] = entity
    return joined


def _weight(entity: Entity) -> tuple[int, float]:
    return entity["end"] - entity["start"], entity["score"]


def _token_entity(token: Token, labels: Sequence[Json]) -> Entity:
    best = int(token.scores.argmax())
    return {
        "entity": labels[best],
        "score": float(token.scores[best]),
        "index": token.position,
        "word": token.text,
        "start": token.start,
        "end": token.end,
    }


def _words(tokens: Sequence[Token]) -> list[list[Token]]:
    groups: list[list[Token]] = []
    for token in tokens:
        if groups and token.continues:
            groups[-1].append(token)
        else:
            groups.append([token])
    return groups


def _labelled(group: Sequence[Token], strategy: str, labels: Sequence[str], text: str) -> _Labelled:
    if strategy == "first":
        scores = group[0].scores
    elif strategy == "max":
        scores = max(group, key=lambda token: float(token.scores.max())).scores
    else:
        scores = np.mean([token.scores for token in group], axis=0)
    best = int(scores.argmax())
    return _Labelled(labels[best], float(scores[best]), text, group[0].start, group[-1].end)


def _runs(labelled: Sequence[_Labelled]) -> list[list[_Labelled]]:
    """Groups of adjacent tokens of one type: B- starts a new group; a label without B- or I- continues one."""
    runs: list[list[_Labelled]] = []
    for item in labelled:
        begins, kind = _split(item.label)
        if runs and not begins and kind == _split(runs[-1][-1].label)[1]:
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs


def _split(label: str) -> tuple[bool, str]:
    """Whether a label starts an entity, and the entity's type."""
    return label.startswith("B-"), label[2:] if label.startswith(("B-", "I-")) else label


def _entity(run: Sequence[_Labelled], library: Any) -> Entity:
    return {
        "entity_group": run[0].label.split("-", 1)[-1],
        "score": float(np.mean([item.score for item in run])),
        "word": _text([item.text for item in run], library),
        "start": run[0].start,
        "end": run[-1].end,
    }


def _text(tokens: list[str], library: Any) -> str:
    decoder = library.decoder
    return " ".join(tokens) if decoder is None else str(decoder.decode(tokens))
