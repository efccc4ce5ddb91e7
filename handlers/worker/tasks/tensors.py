"""Tensors: the answer is the model's outputs as they are, by name, for models that are no other task.

An output with a value per token has those of the text's tokens, without padding.
"""

from __future__ import annotations

from typing import Any

from handlers.worker.artifact import Signature
from handlers.worker.request.schema import Fields
from handlers.worker.tasks.base import Example, Task
from handlers.worker.values import Json


def answer(example: Example, signature: Signature, _: Any) -> Json:
    tokens = len(example.tokenized.rows[0].ids)
    return {
        name: (values[:tokens] if name in signature.token_outputs else values).tolist()
        for name, values in zip(signature.outputs, example.outputs[0], strict=True)
    }


TASK = Task(name="tensors", fields=Fields("text", "text_pair"), answer=answer, scripts_only=True)
