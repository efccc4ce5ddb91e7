"""Sentence embeddings: the answer for a text is its embedding, a list of floats.

The parameters are the same as in Hugging Face's feature-extraction task. prompt_name selects a prompt of the model;
null means no prompt. normalize scales to unit length. truncate controls whether a text that is too long is truncated.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from handlers.worker.errors import RequestError
from handlers.worker.request.parameters import Parameter, choice, flag, word
from handlers.worker.request.schema import Fields
from handlers.worker.rows.prompts import add_prompt
from handlers.worker.rows.tokenizer import RowTokenizer, Window
from handlers.worker.signature import Signature
from handlers.worker.tasks.base import Example, Parameters, Task
from handlers.worker.tasks.columns import Column, ValueKind, whole_answer
from handlers.worker.values import Instance, Json

PARAMETERS: Mapping[str, Parameter] = {
    "prompt_name": word(None),
    "normalize": flag(None),
    "truncate": flag(None),
    "truncation_direction": choice(None, "left", "right"),
}


def window(parameters: Parameters, max_length: int, long_text: str) -> Window:
    truncate = parameters["truncate"]
    rule = long_text if truncate is None else "truncate" if truncate else "reject"
    return Window(max_length, rule, side=parameters["truncation_direction"])


def prepare(instance: Instance, parameters: Parameters, signature: Signature) -> tuple[Instance, int]:
    if parameters["normalize"] is False and signature.unit_length:
        raise RequestError("InvalidParameter", "this model's own embeddings are of unit length; leave out normalize")
    return add_prompt(instance, parameters["prompt_name"], signature)


def answer(example: Example, signature: Signature, _: RowTokenizer) -> Json:
    vector = example.outputs[0][0]
    if example.parameters["normalize"] and not signature.unit_length:
        vector = vector / max(float(np.linalg.norm(vector)), np.finfo(np.float32).tiny)
    return vector.tolist()


def columns(_: Signature, __: Parameters) -> list[Column]:
    return [Column("embedding", ValueKind.VECTOR, whole_answer)]


TASK = Task(
    name="sentence-embedding",
    fields=Fields("text"),
    parameters=PARAMETERS,
    answer=answer,
    columns=columns,
    window=window,
    prepare=prepare,
    vectors=True,
    spec_fields=frozenset({"normalize", "pooling"}),
)
