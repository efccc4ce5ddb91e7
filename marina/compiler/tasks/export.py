"""What the exports of several tasks share."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from torch import nn

from handlers.worker.artifact import Head
from marina.compiler.source.loading import load_model, source_errors
from marina.compiler.tasks.wrappers import TaskModel
from marina.engines import engine_of
from marina.engines.model import ExportedModel
from marina.spec import Spec

INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def export_classifier(
    spec: Spec, folder: Path, head: str, attention: str | None, activation: str | None
) -> ExportedModel:
    """A transformers model with a head that has labels, in float32.

    Args:
        spec: the model's.
        folder: that holds it.
        head: how transformers ends the names of its classes.
        attention: the implementation of attention, or None.
        activation: of its logits; None for what the model's configuration says.
    """
    model, tokenizer = load_model(spec, folder, f"AutoModel{head}", attention)
    inputs = inputs_of(model, tokenizer)
    labels = tuple(str(model.config.id2label[i]) for i in range(model.config.num_labels))
    return ExportedModel(
        TaskModel(model, 1, inputs).float().eval(),
        tokenizer,
        inputs,
        outputs=("logits",),
        heads={"logits": Head(labels, activation or _activation(model.config))},
        positions=positions_of(model, tokenizer),
    )


def inputs_of(model: nn.Module, tokenizer: Any) -> tuple[str, ...]:
    """What the tokenizer gives and the model takes."""
    accepted = inspect.signature(model.forward).parameters
    return tuple(name for name in INPUTS if name in tokenizer.model_input_names and name in accepted)


def attention_of(spec: Spec, folder: Path) -> str | None:
    """The implementation of attention: the engine's, or transformers' own choice but for one kind of model.

    In models that look at neighbours only a padding token may have no token in reach, for which the
    fused kernels give NaN, and that spreads to real tokens; the eager implementation masks with a
    finite number.
    """
    own = engine_of(spec.engine).attention
    if own is not None:
        return own
    with source_errors(spec, "transformers"):
        import transformers

        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    local = any(getattr(config, name, None) for name in ("local_attention", "sliding_window"))
    return "eager" if local else None


def _activation(config: Any) -> str:
    """The activation that transformers' text-classification pipeline applies."""
    if config.problem_type == "regression":
        return "none"
    if config.problem_type == "multi_label_classification" or config.num_labels == 1:
        return "sigmoid"
    return "softmax"


def positions_of(model: nn.Module, tokenizer: Any) -> int | None:
    """The longest sequence that fits the position embeddings.

    RoBERTa and its kin count positions from the padding id on, so they hold fewer tokens than
    they have embeddings; their tokenizer says how many.
    """
    limits = [getattr(model.config, "max_position_embeddings", None), tokenizer.model_max_length]
    known = [limit for limit in limits if isinstance(limit, int) and 0 < limit < 1_000_000]
    return min(known, default=None)
