"""Turns start and end logits into spans of a context, like transformers' QuestionAnsweringPipeline (4.57)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from handlers.worker.tasks.activation import activate

CONTEXT = 1  # the second of the two texts of an instance
EXCLUDED = -10000.0  # the logit of a token that cannot be part of an answer


class Span(NamedTuple):
    """A span with its score. start and end are its first and last token or, once placed, characters."""

    score: float
    start: int
    end: int


def best_spans(
    starts: npt.NDArray[np.float32],
    ends: npt.NDArray[np.float32],
    encoding: Any,
    *,
    cls: int | None,
    top_k: int,
    max_tokens: int,
) -> tuple[list[Span], float]:
    """The likeliest spans of one window, and the score of "no answer".

    Args:
        starts, ends: logits of shape (sequence_length,), including padding.
        encoding: the window's encoding.
        cls: the id of the token that stands for "no answer".
        top_k: the number of spans; fewer are returned if some lie outside the context.
        max_tokens: the maximum number of tokens in a span.
    """
    tokens = len(encoding.ids)
    allowed = np.array([sequence == CONTEXT for sequence in encoding.sequence_ids])
    if cls is not None:
        allowed |= np.asarray(encoding.ids) == cls
    start = activate(np.where(allowed, starts[:tokens], EXCLUDED), "softmax")
    end = activate(np.where(allowed, ends[:tokens], EXCLUDED), "softmax")
    null_score = float(start[0] * end[0])
    start[0] = end[0] = 0.0

    # a span does not end before its start, and has at most `max_tokens` tokens
    scores = np.tril(np.triu(np.outer(start, end)), max_tokens - 1)
    flat = scores.ravel()
    if top_k == 1:
        order = np.array([flat.argmax()])
    elif len(flat) <= top_k:
        order = np.argsort(-flat)
    else:
        likeliest = np.argpartition(-flat, top_k)[:top_k]
        order = likeliest[np.argsort(-flat[likeliest])]
    firsts, lasts = np.unravel_index(order, scores.shape)
    spans = [
        Span(float(scores[first, last]), int(first), int(last))
        for first, last in zip(firsts, lasts, strict=True)
        if allowed[first] and allowed[last] and first <= last
    ]
    return spans, null_score


def place_in_text(span: Span, encoding: Any, align_to_words: bool) -> Span:
    """Convert a span of tokens into a span of the context's characters, widened to whole words if requested."""
    if align_to_words:
        words = encoding.token_to_word(span.start), encoding.token_to_word(span.end)
        if None not in words:
            first, last = (encoding.word_to_chars(word, CONTEXT) for word in words)
            if first is not None and last is not None:
                return Span(span.score, first[0], last[1])
    return Span(span.score, encoding.offsets[span.start][0], encoding.offsets[span.end][1])
