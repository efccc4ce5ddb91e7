"""From start and end logits to spans of a context, by the rules of transformers' QuestionAnsweringPipeline (4.57)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

CONTEXT = 1  # of the two texts of an instance, the second
EXCLUDED = -10000.0  # the logit of a token that cannot be part of an answer


class Span(NamedTuple):
    """A span with its score: of tokens, first and last; or, once placed, of characters."""

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
    longest: int,
) -> tuple[list[Span], float]:
    """The likeliest spans of one window, and the score of "no answer".

    Args:
        starts, ends: logits of (sequence_length,), padding included.
        encoding: of the window.
        cls: id of the token that stands for "no answer".
        top_k: how many spans; fewer come where others lie outside the context.
        longest: most tokens in a span.
    """
    tokens = len(encoding.ids)
    allowed = np.array([sequence == CONTEXT for sequence in encoding.sequence_ids])
    if cls is not None:
        allowed |= np.asarray(encoding.ids) == cls
    start = _softmax(np.where(allowed, starts[:tokens], np.float32(EXCLUDED)))
    end = _softmax(np.where(allowed, ends[:tokens], np.float32(EXCLUDED)))
    null_score = float(start[0] * end[0])
    start[0] = end[0] = 0.0

    # a span ends where it starts or after, and has at most `longest` tokens
    scores = np.tril(np.triu(np.outer(start, end)), longest - 1)
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
        for first, last in zip(firsts, lasts)
        if allowed[first] and allowed[last] and first <= last
    ]
    return spans, null_score


def place_in_text(span: Span, encoding: Any, align_to_words: bool) -> Span:
    """A span of tokens as a span of the context's characters, widened to whole words if asked."""
    if align_to_words:
        words = encoding.token_to_word(span.start), encoding.token_to_word(span.end)
        if None not in words:
            first, last = (encoding.word_to_chars(word, CONTEXT) for word in words)
            if first is not None and last is not None:
                return Span(span.score, first[0], last[1])
    return Span(span.score, encoding.offsets[span.start][0], encoding.offsets[span.end][1])


def _softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    exponentials = np.exp(logits - logits.max())
    return np.asarray(exponentials / exponentials.sum())
