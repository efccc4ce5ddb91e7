"""Reranking: how well a document answers a query, as a score; higher is better.

Scores match `CrossEncoder.predict` of sentence-transformers. A request with one query and several documents (the
protocol `rerank`) is answered with the documents in the order of their scores, as by `CrossEncoder.rank`.
"""

from __future__ import annotations

from handlers.worker.archive.signature import Signature
from handlers.worker.request.parameters import choice
from handlers.worker.request.schema import Fields
from handlers.worker.tasks.activation import activate
from handlers.worker.tasks.base import Example, Parameters, Task
from handlers.worker.tasks.columns import Column, ValueKind, same
from handlers.worker.tokens.tokenizer import RowTokenizer, Window
from handlers.worker.values import Json


def window(_: Parameters, max_length: int, long_text: str) -> Window:
    """An empty document counts as a document, as for the library, which tokenizes lists of pairs."""
    return Window(max_length, long_text, empty_pair=True)


def answer(example: Example, signature: Signature, _: RowTokenizer) -> Json:
    (logits,) = example.outputs[0]
    (head,) = signature.heads.values()
    function = example.parameters["function_to_apply"]
    return float(activate(logits, head.activation if function == "default" else function)[0])


def columns(_: Signature, __: Parameters) -> list[Column]:
    return [Column("score", ValueKind.NUMBER, same)]


TASK = Task(
    name="reranking",
    fields=Fields("query", "document", second_required=True, empty=True),
    parameters={"function_to_apply": choice("default", "sigmoid", "none")},
    answer=answer,
    columns=columns,
    window=window,
    ranks=True,
)
