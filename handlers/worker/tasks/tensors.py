"""Tensors: the answer is the model's outputs as they are, by name, for models that are no other task.

An output with a value per token has the values of the text's tokens, without padding.
"""

from __future__ import annotations

from typing import Any

from handlers.worker.archive.signature import Signature
from handlers.worker.request.schema import Fields
from handlers.worker.tasks.base import Example, Parameters, Task
from handlers.worker.tasks.columns import Column, ValueKind, item
from handlers.worker.values import Json


def answer(example: Example, signature: Signature, _: Any) -> Json:
    tokens = len(example.tokenized.rows[0].ids)
    return {
        name: (values[:tokens] if name in signature.token_outputs else values).tolist()
        for name, values in zip(signature.outputs, example.outputs[0], strict=True)
    }


def columns(signature: Signature, _: Parameters) -> list[Column]:
    return [Column(name, ValueKind.JSON, item(name)) for name in signature.outputs]


TASK = Task(name="tensors", fields=Fields("text", "text_pair"), answer=answer, columns=columns, scripts_only=True)
