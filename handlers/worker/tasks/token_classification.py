"""Token classification: entities with character offsets, like those of transformers' pipeline.

aggregation_strategy "none" answers for every token. The others join tokens into entities: "simple"
uses only their labels; "first", "average" and "max" first assign one label to every word. A text that
is split into several windows is answered window by window; of entities that overlap, the longest is kept.
"""

from __future__ import annotations

from collections.abc import Mapping

from handlers.worker.archive.signature import Signature
from handlers.worker.errors import RequestError
from handlers.worker.request.parameters import Parameter, choice, integer, words
from handlers.worker.request.schema import Fields
from handlers.worker.tasks.activation import activate
from handlers.worker.tasks.base import Example, Parameters, Task
from handlers.worker.tasks.columns import Column, ValueKind, same
from handlers.worker.tasks.entities import Token, join_tokens, join_windows
from handlers.worker.tokens.tokenizer import RowTokenizer, Window
from handlers.worker.values import Json

PARAMETERS: Mapping[str, Parameter] = {
    "aggregation_strategy": choice("none", "simple", "first", "average", "max"),
    "ignore_labels": words(["O"]),
    "stride": integer(None, minimum=0, null=True),
}


def window(parameters: Parameters, max_length: int, long_text: str) -> Window:
    """A request with a stride gets windows; otherwise the spec decides, and windows overlap by a quarter."""
    stride = parameters["stride"]
    if stride is None and long_text != "window":
        return Window(max_length, long_text)
    if stride is None:
        return Window(max_length, "window", max_length // 4, exact=False)
    return Window(max_length, "window", stride)


def answer(example: Example, signature: Signature, tokenizer: RowTokenizer) -> Json:
    strategy = example.parameters["aggregation_strategy"]
    if strategy == "none" and len(example.outputs) > 1:
        raise RequestError(
            "InvalidParameter",
            f"the text makes {len(example.outputs)} windows, whose tokens cannot be told apart; "
            'ask for another aggregation_strategy than "none"',
        )
    ignored = frozenset(example.parameters["ignore_labels"])
    entities = []
    for encoding, outputs in zip(example.tokenized.encodings, example.outputs, strict=True):
        tokens = _tokens(example, encoding, outputs[0], signature, tokenizer)
        joined = join_tokens(tokens, strategy, signature.heads["logits"].labels, tokenizer.library)
        entities += [entity for entity in joined if entity.get("entity_group", entity.get("entity")) not in ignored]
    return join_windows(entities) if len(example.outputs) > 1 else entities


def _tokens(
    example: Example, encoding: Json, logits: Json, signature: Signature, tokenizer: RowTokenizer
) -> list[Token]:
    """The tokens of one row except special tokens, with the scores of every label."""
    text = example.instance.text
    word_aware = bool(getattr(tokenizer.library.model, "continuing_subword_prefix", None))
    scores = activate(logits[: len(encoding.ids)], "softmax")
    tokens = []
    for position, (start, end) in enumerate(encoding.offsets):
        if encoding.special_tokens_mask[position]:
            continue
        # as in the vocabulary: tokens of an encoding also have the spaces beside them
        token = tokenizer.library.id_to_token(encoding.ids[position]) or ""
        continues = len(token) != end - start if word_aware else start > 0 and " " not in text[start - 1 : start + 1]
        if encoding.ids[position] == signature.special_tokens.get("unk"):
            token, continues = text[start:end], False
        tokens.append(Token(token, scores[position], start, end, position, continues))
    return tokens


def columns(_: Signature, __: Parameters) -> list[Column]:
    return [Column("entities", ValueKind.JSON, same)]


TASK = Task(
    name="token-classification",
    fields=Fields("text"),
    parameters=PARAMETERS,
    answer=answer,
    columns=columns,
    window=window,
    offsets=True,
)
