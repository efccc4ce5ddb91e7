"""Extractive question answering: spans of the context, found as in the pipeline of transformers 4.57.

That is the last release series with this pipeline; transformers 5 has none. A context that is too long is split
into several windows that overlap by doc_stride. The best spans of all windows are ranked together. The
scores of answers that are equal ignoring case are added up, so a score can exceed 1.
"""

from __future__ import annotations

from collections.abc import Mapping

from handlers.worker.archive.signature import Signature
from handlers.worker.errors import RequestError
from handlers.worker.request.parameters import Parameter, flag, integer
from handlers.worker.request.schema import Fields
from handlers.worker.tasks.base import Example, Parameters, Task
from handlers.worker.tasks.columns import Column, ValueKind
from handlers.worker.tasks.spans import Span, best_spans, place_in_text
from handlers.worker.tokens.tokenizer import RowTokenizer, Window
from handlers.worker.values import Json

DEFAULT_LENGTH = 384  # tokens in a window, if the shapes allow it
DEFAULT_STRIDE = 128


PARAMETERS: Mapping[str, Parameter] = {
    "top_k": integer(1, minimum=1, maximum=100),
    "doc_stride": integer(None, minimum=0, null=True),
    "max_seq_len": integer(None, minimum=1, null=True),
    "max_answer_len": integer(15, minimum=1),
    # transformers accepts it but, with fast tokenizers, does not use it
    "max_question_len": integer(64, minimum=1),
    "handle_impossible_answer": flag(default=False),
    "align_to_words": flag(default=True),
}


def window(parameters: Parameters, max_length: int, long_text: str) -> Window:
    length = min(parameters["max_seq_len"] or DEFAULT_LENGTH, max_length)
    stride = parameters["doc_stride"]
    if stride is None:
        return Window(length, long_text, min(length // 2, DEFAULT_STRIDE), exact=False, strategy="only_second")
    if stride > length:
        raise RequestError("InvalidParameter", f"doc_stride {stride} is larger than a window of {length} tokens")
    return Window(length, long_text, stride, strategy="only_second")


def answer(example: Example, signature: Signature, _: RowTokenizer) -> Json:
    parameters = example.parameters
    context = str(example.instance.text_pair)
    top_k, align = parameters["top_k"], parameters["align_to_words"]
    merged: dict[str, Span] = {}
    null_score = 1.0
    for encoding, (starts, ends) in zip(example.tokenized.encodings, example.outputs, strict=True):
        window_spans, window_null_score = best_spans(
            starts,
            ends,
            encoding,
            cls=signature.special_tokens.get("cls"),
            # some spans become equal when they are widened to words
            top_k=2 * top_k + 10 if align else top_k,
            max_tokens=parameters["max_answer_len"],
        )
        null_score = min(null_score, window_null_score)
        for span in (place_in_text(span, encoding, align) for span in window_spans):
            text = context[span.start : span.end].lower()
            previous = merged.get(text)
            merged[text] = previous._replace(score=previous.score + span.score) if previous else span
    spans = list(merged.values()) or [Span(0.0, 0, 0)]  # a context without tokens has none
    if parameters["handle_impossible_answer"]:
        spans.append(Span(null_score, 0, 0))
    ranked = sorted(spans, key=lambda span: span.score, reverse=True)[:top_k]
    answers = [
        {"score": span.score, "start": span.start, "end": span.end, "answer": context[span.start : span.end]}
        for span in ranked
    ]
    return answers[0] if len(answers) == 1 else answers


def columns(_: Signature, parameters: Parameters) -> list[Column]:
    """The best answer; with top_k, all of them."""

    def ranked(answer: Json) -> list[Json]:
        return answer if isinstance(answer, list) else [answer]

    def best_column(name: str, kind: ValueKind) -> Column:
        return Column(name, kind, lambda answer: ranked(answer)[0][name])

    kinds = {"answer": ValueKind.TEXT, "score": ValueKind.NUMBER, "start": ValueKind.WHOLE, "end": ValueKind.WHOLE}
    best = [best_column(name, kind) for name, kind in kinds.items()]
    return [*best, Column("answers", ValueKind.JSON, ranked)] if parameters["top_k"] > 1 else best


TASK = Task(
    name="question-answering",
    fields=Fields("question", "context", second_required=True),
    parameters=PARAMETERS,
    answer=answer,
    columns=columns,
    window=window,
    offsets=True,
    long_text="window",
    usual_length=DEFAULT_LENGTH,
)
