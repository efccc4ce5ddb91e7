"""The reference: the outputs of a model's own library for a text, called as a user would, without padding.

It loads the model independently and shares no code with the compiled model, so an omission there
shows up as a difference here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch

from handlers.worker.members.golden import GoldenRow
from handlers.worker.values import Instance, Row
from marina.compiler.hugging_face.folder import HuggingFaceFolder
from marina.compiler.hugging_face.loading import ENCODER, load_model, source_errors
from marina.spec import Spec

MAX_GOLDEN_ROWS = 8  # maximum number of rows stored in the artifact
TEXTS_PER_PROMPT = 3  # number of texts for each prompt except the default one
DIGITS = 7  # decimals of golden outputs: well below any tolerance, well above float64's rounding errors
ExactOutputs = list[npt.NDArray[np.float64]]


class ReferenceRow(NamedTuple):
    """An instance as a tokenizer reads it, and the row that the library makes from it."""

    instance: Instance
    row: Row


class Reference(Protocol):
    """A model run by its own library, with weights in float32 and arithmetic in float64.

    Attributes:
        prompts: the names of its prompts, the default one or None first.
    """

    prompts: tuple[str | None, ...]

    def read(self, instance: Instance, prompt: str | None) -> ReferenceRow:
        """The tokens of an instance of any length."""

    def answer(self, instance: Instance, prompt: str | None) -> ExactOutputs:
        """The outputs for an instance that the model can read, without the batch dimension."""


def reference_rows(
    reference: Reference, spec: Spec, instances: Sequence[Instance], max_length: int, every_prompt: bool = False
) -> list[GoldenRow]:
    """Compute the reference outputs of every instance that fits in `max_length` tokens, rounded to `DIGITS` decimals.

    The rounding makes them independent of the machine.

    Args:
        reference: the model.
        spec: the model's spec.
        instances: texts, read with the default prompt.
        max_length: the maximum number of tokens.
        every_prompt: whether to also read a few of the texts with each of the other prompts.

    Raises:
        SourceError: the library cannot compute the outputs.
    """
    default_prompt, *other_prompts = reference.prompts
    prompted_instances = [(instance, default_prompt) for instance in instances]
    if every_prompt:
        prompted_instances += [
            (instance, prompt) for prompt in other_prompts for instance in instances[1 : 1 + TEXTS_PER_PROMPT]
        ]
    rows = []
    for instance, prompt in prompted_instances:
        with source_errors(spec, "the model's own library", "read a text with"):
            reference_row = reference.read(instance, prompt)
        tokens = len(reference_row.row.ids)
        if 0 < tokens <= max_length:
            subject = "a text" if instance.text_pair is None else "a pair of texts"
            with (
                source_errors(spec, "the model's own library", f"compute {subject} of {tokens} tokens with"),
                torch.no_grad(),
            ):
                # -0.0 and 0.0 are equal but are written differently
                outputs = [output.round(DIGITS) + 0.0 for output in reference.answer(instance, prompt)]
            rows.append(GoldenRow(*reference_row, outputs))
    return rows


def read_tokens(tokenizer: Any, instance: Instance) -> ReferenceRow:
    """The tokens that a tokenizer of transformers gives for an instance of any length."""
    batch = tokenizer(instance.text, instance.text_pair, truncation=False, verbose=False)
    # the library's own encoding: transformers drops token types that the model does not accept
    return ReferenceRow(instance, Row(list(batch["input_ids"]), list(batch.encodings[0].type_ids)))


def pool_tokens(vectors: npt.NDArray[np.float64], mode: str) -> npt.NDArray[np.float64]:
    """Pool the vectors (tokens, width) of one text without padding into one (width,).

    Args:
        vectors: one per token.
        mode: "mean", "cls", "max" or "lasttoken", in the terms of sentence-transformers.
    """
    pooled = {"mean": vectors.mean(0), "cls": vectors[0], "max": vectors.max(0), "lasttoken": vectors[-1]}
    return np.asarray(pooled[mode])


def choose_golden(rows: list[GoldenRow]) -> list[GoldenRow]:
    """A few rows, spread from the shortest to the longest."""
    ordered = sorted(rows, key=lambda row: len(row.row.ids))
    indices = np.linspace(0, len(ordered) - 1, min(MAX_GOLDEN_ROWS, len(ordered))).round().astype(int)
    return [ordered[index] for index in indices]


class Float64Runner:
    """Runs a model in float64, or in float32 as soon as its code turns out to require that."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model.double().eval()

    def __call__(self, run: Callable[[], Any]) -> Any:
        try:
            return run()
        except RuntimeError as error:
            if "type" not in str(error) or next(self._model.parameters()).dtype == torch.float32:
                raise
            self._model.float()
            return run()


class TransformersReference:
    """A transformers model with its own tokenizer.

    Args:
        source: the model's folder.
        head: the suffix of transformers' class names for the head; "" for an encoder without a head.
    """

    prompts: tuple[str | None, ...] = (None,)

    def __init__(self, source: HuggingFaceFolder, head: str) -> None:
        model, self._tokenizer = load_model(source, f"{ENCODER}{head}")
        self._model, self._run_in_float64 = model, Float64Runner(model)
        self._accepted = inspect.signature(model.forward).parameters

    def read(self, instance: Instance, prompt: str | None) -> ReferenceRow:
        return read_tokens(self._tokenizer, instance)

    def answer(self, instance: Instance, prompt: str | None) -> ExactOutputs:
        return [self.run(instance).logits[0].numpy()]

    def run(self, instance: Instance) -> Any:
        """The model's return value for an instance."""
        batch = self._tokenizer(instance.text, instance.text_pair, return_tensors="pt", verbose=False)
        inputs = {name: tensor for name, tensor in batch.items() if name in self._accepted}
        return self._run_in_float64(lambda: self._model(**inputs))
