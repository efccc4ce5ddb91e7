"""How a model reads rows, and what it returns: the names of its inputs and outputs, its labels and its prompts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from handlers.worker.values import Json

# the inputs of graphs
INPUT_IDS, ATTENTION_MASK, TOKEN_TYPE_IDS = TOKENIZER_INPUTS = "input_ids", "attention_mask", "token_type_ids"
POOLING_MASK = "pooling_mask"  # where pooling excludes the tokens of a prompt
POSITION_IDS = "position_ids"  # of models that number tokens by their ids, as RoBERTa does
SEGMENTS = "segments"  # of packed graphs: the number of the text in the line that a token belongs to, or -1
QUERY, DOCUMENT = "query", "document"  # the roles of texts
# the prompts that `encode_query` and `encode_document` of sentence-transformers take, if the model has one of these
ROLE_PROMPTS = {QUERY: ("query",), DOCUMENT: ("document", "passage", "corpus")}
VALID_LENGTH = "valid_length"  # in place of a mask, the number of tokens of each row


class Head(NamedTuple):
    """The labels of one output, and the activation from logits to scores: "softmax", "sigmoid" or "none".

    Labels are texts, or other values that a config.json has in `id2label`: numbers, true, false or null.
    """

    labels: tuple[Json, ...]
    activation: str


def label_text(label: Json) -> str:
    """A label as a text; a label that is no text as JSON."""
    return label if isinstance(label, str) else json.dumps(label)


class InputTensor(NamedTuple):
    """An input that a preprocessor gives: "int64" or "float32", whether it has one value per row, and its padding."""

    dtype: str
    per_row: bool
    padding: float


class Prompt(NamedTuple):
    """A text to prepend to inputs, and the number of tokens at the start of a row that pooling excludes for it."""

    text: str
    tokens: int


class Filling(NamedTuple):
    """How rows are filled up with a token.

    Attributes:
        token: the id.
        length: the tokens that a row has then, at least.
        exact: whether longer texts are cut to that length.
        attended: whether other tokens attend to these.
    """

    token: int
    length: int
    exact: bool
    attended: bool


class Role(NamedTuple):
    """How a model reads and answers queries, or documents.

    Attributes:
        prompt: the name of the prompt; None if there is none.
        max_length: the maximum number of tokens in a row.
        filling: how rows are filled up; None if they are not.
        skipped: ids of tokens whose outputs are left out of answers.
    """

    prompt: str | None
    max_length: int
    filling: Filling | None
    skipped: tuple[int, ...]


def hides_filling(roles: Mapping[str, Role]) -> bool:
    """Whether no token attends to those that a row was filled up with."""
    return any(role.filling is not None and not role.filling.attended for role in roles.values())


@dataclass(frozen=True)
class Signature:
    """How a model reads rows, and what it returns.

    inputs are the names of the graph's arguments in order, each int64 of shape (batch_size,
    sequence_length): input_ids, attention_mask, token_type_ids, `POSITION_IDS`, and `POOLING_MASK`, which is the
    attention mask without the tokens of a prompt. outputs are the names of its results, each float32 with batch_size
    as the first dimension and, in tasks that answer per token, sequence_length as the second. heads are the outputs
    with labels. special_tokens are the ids of "cls" and "unk", if the tokenizer has them.
    If a preprocessor takes the place of the tokenizer, fields are the fields of an instance and tensors describes the
    inputs. token_outputs are the outputs with a value per token, where the task does not define that.
    packed_inputs are the arguments of packed graphs, see `handlers.worker.rows.lines`; empty if the model has none.
    per_token is true if every output has a value per token.
    prompts are the prompts that requests may name; default_prompt is the name of the prompt for requests that
    name none. unit_length is true if outputs are vectors of length 1. padding_position is the id of padding in
    `POSITION_IDS`, see `number_positions`; None if the graphs do not read them. dimensions are the sizes that a vector
    may be cut to, its own included; empty if that is not known. ranges are the least and the greatest value of every
    place of a vector, for int8; empty if they are not known. defaults are the model's own values of parameters.
    roles are `QUERY` and `DOCUMENT`, for models that distinguish queries from documents.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    pad_token_id: int
    pad_token_type_id: int
    truncation_side: str
    special_tokens: Mapping[str, int]
    heads: Mapping[str, Head]
    prompts: Mapping[str, Prompt]
    default_prompt: str | None
    unit_length: bool
    padding_position: int | None = None
    fields: tuple[str, ...] = ()
    tensors: Mapping[str, InputTensor] = field(default_factory=dict)
    token_outputs: tuple[str, ...] = ()
    packed_inputs: tuple[str, ...] = ()
    per_token: bool = False
    dimensions: tuple[int, ...] = ()
    ranges: tuple[tuple[float, ...], ...] = ()
    defaults: Mapping[str, Json] = field(default_factory=dict)
    roles: Mapping[str, Role] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Convert to JSON types; `from_json` returns an equal value."""
        nested = {
            name: {key: value._asdict() for key, value in getattr(self, name).items()}
            for name in ("heads", "prompts", "tensors", "roles")
        }
        for role in nested["roles"].values():
            role["filling"] = role["filling"] and role["filling"]._asdict()
        return {**vars(self), **nested}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Signature:
        """The signature in the fields of an `artifact.json`, which may have other fields too.

        Raises:
            KeyError, TypeError: a field is missing.
        """
        values = {entry.name: document[entry.name] for entry in fields(cls) if entry.name in document}
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        values["heads"] = {
            name: Head(tuple(head["labels"]), head["activation"]) for name, head in values["heads"].items()
        }
        values["prompts"] = {name: Prompt(**prompt) for name, prompt in values["prompts"].items()}
        values["tensors"] = {name: InputTensor(**tensor) for name, tensor in values.get("tensors", {}).items()}
        values["ranges"] = tuple(map(tuple, values.get("ranges", ())))
        values["roles"] = {name: _role(role) for name, role in values.get("roles", {}).items()}
        return cls(**values)


def _role(document: Mapping[str, Any]) -> Role:
    filling = document["filling"] and Filling(**document["filling"])
    return Role(**{**document, "filling": filling, "skipped": tuple(document["skipped"])})
