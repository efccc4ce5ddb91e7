"""The reference: what a model's own library answers to a text, called as a user of it would, without padding.

It loads the model by itself and shares nothing with what is compiled, so that what is left out there
is missed here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch

from handlers.worker.golden import GoldenRow
from handlers.worker.values import Instance, Row
from marina.compiler.embedder import load_embedder, pooling_of, read_prompts
from marina.compiler.export import read_heads
from marina.compiler.loading import load_model, source_errors
from marina.errors import SourceError
from marina.spec import Spec

GOLDEN = 8  # rows that travel in the artifact
PROMPTED = 3  # texts for each prompt but the default one
DIGITS = 7  # decimals of golden outputs: far below any tolerance, far above float64's rounding
Outputs = list[npt.NDArray[np.float64]]


class Reading(NamedTuple):
    """An instance as a tokenizer reads it, and the row that the library makes of it."""

    instance: Instance
    row: Row


class Reference(Protocol):
    """A model as its own library runs it, with weights in float32 and sums in float64.

    Attributes:
        prompts: the names of its prompts, the default one or None first.
    """

    prompts: tuple[str | None, ...]

    def read(self, instance: Instance, prompt: str | None) -> Reading:
        """The tokens of an instance, of whatever length."""

    def answer(self, instance: Instance, prompt: str | None) -> Outputs:
        """The outputs for an instance that the model can read, without the batch dimension."""


def open_reference(spec: Spec, folder: Path) -> Reference:
    """Load the model of a spec; SourceError where that cannot be."""
    if spec.task == "sentence-embedding":
        return _EmbeddingReference(spec, folder)
    return _HeadsReference(spec, folder) if spec.heads else _TaskReference(spec, folder)


def reference_rows(
    reference: Reference, spec: Spec, instances: Sequence[Instance], max_length: int, every_prompt: bool = False
) -> list[GoldenRow]:
    """Compute the reference outputs of every instance that fits in `max_length` tokens, rounded to `DIGITS` decimals.

    Rounded like that they do not depend on the machine.

    Args:
        reference: the model.
        spec: of the same.
        instances: texts, read with the default prompt.
        max_length: tokens.
        every_prompt: whether to read a few of them with each of the other prompts too.

    Raises:
        SourceError: the library cannot compute them.
    """
    first, *others = reference.prompts
    asked = [(instance, first) for instance in instances]
    if every_prompt:
        asked += [(instance, prompt) for prompt in others for instance in instances[1 : 1 + PROMPTED]]
    rows = []
    for instance, prompt in asked:
        with source_errors(spec, "the model's own library", "read a text with"):
            reading = reference.read(instance, prompt)
        tokens = len(reading.row.ids)
        if 0 < tokens <= max_length:
            what = "a text" if instance.text_pair is None else "a pair of texts"
            with (
                source_errors(spec, "the model's own library", f"compute {what} of {tokens} tokens with"),
                torch.no_grad(),
            ):
                # -0.0 and 0.0 are equal but are not written alike
                outputs = [output.round(DIGITS) + 0.0 for output in reference.answer(instance, prompt)]
            rows.append(GoldenRow(*reading, outputs))
    return rows


def choose_golden(rows: list[GoldenRow]) -> list[GoldenRow]:
    """A few rows from the shortest to the longest."""
    ordered = sorted(rows, key=lambda row: len(row.row.ids))
    places = np.linspace(0, len(ordered) - 1, min(GOLDEN, len(ordered))).round().astype(int)
    return [ordered[place] for place in places]


class _Exact:
    """Runs a model with sums in float64, or in float32 from where its code insists on that."""

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


class _TaskReference:
    """A transformers model with its own tokenizer."""

    prompts: tuple[str | None, ...] = (None,)

    def __init__(self, spec: Spec, folder: Path) -> None:
        model, self._tokenizer = load_model(spec, folder)
        self._model, self._exactly = model, _Exact(model)
        self._task = spec.task
        self._accepted = inspect.signature(model.forward).parameters

    def read(self, instance: Instance, prompt: str | None) -> Reading:
        batch = self._tokenizer(instance.text, instance.text_pair, truncation=False, verbose=False)
        # the library's own encoding: transformers leaves out token types that the model does not take
        return Reading(instance, Row(list(batch["input_ids"]), list(batch.encodings[0].type_ids)))

    def answer(self, instance: Instance, prompt: str | None) -> Outputs:
        found = self._run(instance)
        logits = (found.start_logits, found.end_logits) if self._task == "question-answering" else (found.logits,)
        return [output[0].numpy() for output in logits]

    def _run(self, instance: Instance) -> Any:
        batch = self._tokenizer(instance.text, instance.text_pair, return_tensors="pt", verbose=False)
        inputs = {name: tensor for name, tensor in batch.items() if name in self._accepted}
        return self._exactly(lambda: self._model(**inputs))


class _HeadsReference(_TaskReference):
    """An encoder with heads on one vector for all tokens; without padding that is simple to say."""

    def __init__(self, spec: Spec, folder: Path) -> None:
        super().__init__(spec, folder)
        self._pooling = pooling_of(spec, folder)
        self._heads = read_heads(spec, folder, self._model.config.hidden_size)

    def answer(self, instance: Instance, prompt: str | None) -> Outputs:
        vectors = self._run(instance).last_hidden_state[0]
        pooled = {
            "mean": vectors.mean(0),
            "cls": vectors[0],
            "max": vectors.max(0).values,
            "lasttoken": vectors[-1],
        }[self._pooling]
        return [(head.weight.to(pooled) @ pooled + head.bias.to(pooled)).numpy() for head in self._heads.values()]


class _EmbeddingReference:
    """A `SentenceTransformer`, asked with `encode`."""

    def __init__(self, spec: Spec, folder: Path) -> None:
        model = load_embedder(spec, folder)
        self._name = spec.name
        self._prompts = read_prompts(model)
        self._model, self._exactly = model, _Exact(model)
        # no prompt at all can be asked for too; those of equal text are read alike
        names = dict.fromkeys((model.default_prompt_name, None, *self._prompts))
        texts = {(self._prompts[name].text if name is not None else ""): name for name in reversed(names)}
        self.prompts: tuple[str | None, ...] = tuple(name for name in names if name in texts.values())

    def read(self, instance: Instance, prompt: str | None) -> Reading:
        before = self._prompts[prompt] if prompt is not None else None
        text = (before.text if before else "") + instance.text
        whole = self._model.tokenizer(text, truncation=False, verbose=False)
        own = Row(list(whole["input_ids"]), list(whole.encodings[0].type_ids), before.tokens if before else 0)
        limit = self._model.max_seq_length
        if limit is None or len(own.ids) <= limit:
            features = self._model.preprocess([instance.text], prompt=before.text if before else None)
            if features["input_ids"][0].tolist() != own.ids:
                raise SourceError(f"{self._name}: sentence-transformers reads other tokens than its tokenizer makes")
        return Reading(Instance(text), own)

    def answer(self, instance: Instance, prompt: str | None) -> Outputs:
        text = self._prompts[prompt].text if prompt is not None else ""
        # an empty prompt is none, where leaving it out would take the default one
        options = {"prompt": text, "batch_size": 1, "show_progress_bar": False}
        (found,) = self._exactly(lambda: self._model.encode([instance.text], **options))
        return [np.asarray(found, dtype=np.float64)]
