"""Sentence embeddings: the answer for a text is its embedding, an array of 32-bit floats.

The parameters are the same as in Hugging Face's feature-extraction task. prompt_name selects a prompt of the model;
null means no prompt. normalize scales to unit length. truncate controls whether a text that is too long is truncated.
dimensions cuts the embedding, as OpenAI's parameter does; what has unit length has it after the cut too. precision is
that of sentence-transformers' `quantize_embeddings`: in "ubinary" each byte has the signs of eight values, the first in
its highest bit, and "binary" is that as a signed byte, less 128. "uint8" divides the range that each value has in the
user's embeddings into 256 steps, and "int8" is that less 128.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from handlers.worker.archive.signature import Signature
from handlers.worker.errors import RequestError
from handlers.worker.request.parameters import Parameter, choice, flag, integer, word
from handlers.worker.request.schema import Fields
from handlers.worker.tasks.base import Example, Parameters, Task
from handlers.worker.tasks.columns import Column, ValueKind, same
from handlers.worker.tokens.prompts import add_prompt
from handlers.worker.tokens.tokenizer import RowTokenizer, Text, Window
from handlers.worker.values import Json

KINDS = {
    "float32": ValueKind.VECTOR,
    "binary": ValueKind.SIGNED_BYTES,
    "ubinary": ValueKind.BYTES,
    "int8": ValueKind.SMALL_WHOLES,  # bytes are signs
    "uint8": ValueKind.SMALL_WHOLES,
}
PARAMETERS: Mapping[str, Parameter] = {
    "prompt_name": word(None),
    "normalize": flag(None),
    "truncate": flag(None),
    "truncation_direction": choice(None, "left", "right"),
    "dimensions": integer(None, minimum=1, null=True),
    "precision": choice(*KINDS),
}


def window(parameters: Parameters, max_length: int, long_text: str) -> Window:
    truncate = parameters["truncate"]
    rule = long_text if truncate is None else "truncate" if truncate else "reject"
    return Window(max_length, rule, side=parameters["truncation_direction"])


def prepare(text: Text, parameters: Parameters, signature: Signature) -> Text:
    if parameters["normalize"] is False and signature.unit_length:
        raise RequestError("InvalidParameter", "this model's own embeddings are of unit length; leave out normalize")
    if parameters["dimensions"] not in (None, *signature.dimensions):
        sizes = ", ".join(map(str, signature.dimensions))
        allowed = f"allowed: {sizes}" if sizes else "leave it out"
        raise RequestError(
            "InvalidParameter", f"dimensions: this model's embeddings are not cut to that size; {allowed}"
        )
    if parameters["precision"] in ("int8", "uint8"):
        if not signature.ranges:
            raise RequestError("InvalidParameter", "precision: the spec of this model has no ranges for int8")
        if parameters["dimensions"] not in (None, len(signature.ranges[0])):
            raise RequestError("InvalidParameter", "precision: the ranges for int8 are those of whole embeddings")
    return add_prompt(text, parameters["prompt_name"], signature)


def answer(example: Example, signature: Signature, _: RowTokenizer) -> Json:
    parameters, vector = example.parameters, example.outputs[0][0]
    size = parameters["dimensions"] or len(vector)
    is_unit_length = signature.unit_length and size == len(vector)
    vector = vector[:size]
    if (signature.unit_length or parameters["normalize"]) and not is_unit_length:
        vector = vector / max(float(np.linalg.norm(vector)), np.finfo(np.float32).tiny)
    return quantize(vector, parameters["precision"], signature.ranges)


def quantize(
    vector: npt.NDArray[np.float32], precision: str, ranges: tuple[tuple[float, ...], ...] = ()
) -> npt.NDArray[Any]:
    """A vector in a precision, as `quantize_embeddings` of sentence-transformers 6 computes it.

    Args:
        vector: the embedding.
        precision: "float32"; "ubinary" or "binary" for eight signs in a byte, as uint8 or int8; "uint8" or "int8".
        ranges: the least and the greatest value of every place, for "uint8" and "int8".
    """
    if precision == "float32":
        return vector
    if precision in ("int8", "uint8"):
        starts, steps = _scale(ranges)
        places: npt.NDArray[np.int16] = np.clip(np.floor((vector - starts) / steps), 0, 255).astype(np.int16)
        return places.astype(np.uint8) if precision == "uint8" else (places - 128).astype(np.int8)
    signs = np.packbits(vector > 0)
    return signs if precision == "ubinary" else (signs.astype(np.int16) - 128).astype(np.int8)


@lru_cache
def _scale(ranges: tuple[tuple[float, ...], ...]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    starts, ends = np.array(ranges, np.float32)
    steps = (ends - starts) / 255
    return starts, np.where(steps == 0, np.float32(1), steps)


def columns(_: Signature, parameters: Parameters) -> list[Column]:
    return [Column("embedding", KINDS[parameters["precision"]], same)]


TASK = Task(
    name="sentence-embedding",
    fields=Fields("text"),
    parameters=PARAMETERS,
    answer=answer,
    columns=columns,
    window=window,
    prepare=prepare,
    vectors=True,
    spec_fields=frozenset({"normalize", "pooling", "dimensions", "ranges"}),
)
