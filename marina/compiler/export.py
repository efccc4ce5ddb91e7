"""Loads a Hugging Face model for a task, in the form that compilers take."""

from __future__ import annotations

import inspect
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from handlers.worker.artifact import Head
from handlers.worker.placement import NEURON_ENGINES
from marina.compiler.modules import EmbeddingModel, HeadsModel, TaskModel
from marina.errors import SourceError
from marina.spec import Spec

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
HEADS_FILE = "heads.safetensors"
AUTO_CLASSES = {
    "text-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
}


@dataclass(frozen=True)
class ExportedModel:
    """A model in evaluation mode, ready to compile.

    module takes the `inputs` positionally, each int64 of (batch_size, sequence_length), and
    returns a tuple of the `outputs`, each float32 with batch_size first.
    """

    module: nn.Module
    tokenizer: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    heads: dict[str, Head]  # the outputs that have labels
    positions: int | None  # the longest sequence that the model can read


def export_model(spec: Spec, folder: Path) -> ExportedModel:
    """Load a model and its tokenizer for the spec's task, in float32.

    Raises:
        SourceError: the folder does not hold what the task needs.
    """
    model, tokenizer = _load(spec, folder)
    accepted = inspect.signature(model.forward).parameters
    inputs = tuple(name for name in INPUTS if name in tokenizer.model_input_names and name in accepted)
    outputs: tuple[str, ...]
    heads: dict[str, Head] = {}
    labels = tuple(str(model.config.id2label[i]) for i in range(model.config.num_labels))
    if spec.task == "sentence-embedding":
        module: nn.Module = EmbeddingModel(model, *_pooling(spec, folder), inputs)
        outputs = ("embedding",)
    elif spec.task == "question-answering":
        module = TaskModel(model, 2, inputs)
        outputs = ("start_logits", "end_logits")
    elif spec.heads:
        module = HeadsModel(
            model, _pooling(spec, folder)[0], _read_heads(spec, folder, model.config.hidden_size), inputs
        )
        heads = {name: Head(head.labels, head.activation) for name, head in spec.heads.items()}
        outputs = tuple(heads)
    else:
        module = TaskModel(model, 1, inputs)
        activation = "softmax" if spec.task == "token-classification" else _activation(model.config)
        outputs, heads = ("logits",), {"logits": Head(labels, activation)}
    return ExportedModel(
        module=module.float().eval(),
        tokenizer=tokenizer,
        inputs=inputs,
        outputs=outputs,
        heads=heads,
        positions=_positions(model, tokenizer),
    )


def _load(spec: Spec, folder: Path) -> tuple[Any, Any]:
    """The transformers model for a task, and its fast tokenizer."""
    import transformers
    from transformers.utils.logging import disable_progress_bar

    logging.getLogger("transformers").setLevel(logging.ERROR)
    disable_progress_bar()
    encoder_only = spec.task == "sentence-embedding" or bool(spec.heads)
    auto_class = getattr(transformers, "AutoModel" if encoder_only else AUTO_CLASSES[spec.task])
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, use_fast=True, local_files_only=True)
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        model, loading = auto_class.from_pretrained(
            folder,
            config=config,
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
            attn_implementation=_attention(spec, config),
        )
    except Exception as error:  # whatever a damaged file makes transformers raise
        reason = " ".join(str(error).split())[:300]
        raise SourceError(f"{spec.name}: transformers cannot load source {spec.source}: {reason}") from None
    # the pooler of an encoder is not part of its token vectors
    missing = [key for key in loading["missing_keys"] if not (encoder_only and "pooler." in key)]
    if missing:
        raise SourceError(
            f"{spec.name}: source {spec.source} has no weights for {sorted(missing)[0]} ({len(missing)} missing); "
            f"it was not trained for the task {spec.task}"
        )
    if not tokenizer.is_fast:
        raise SourceError(f"{spec.name}: source {spec.source} has no fast tokenizer (tokenizer.json)")
    return model, tokenizer


def _attention(spec: Spec, config: Any) -> str | None:
    """The implementation of attention: transformers' own choice, but for two kinds.

    In models that look at neighbours only a padding token may have no token in reach, for which the
    fused kernels give NaN, and that spreads to real tokens; the eager implementation masks with a
    finite number. Neuron's compilers are given the eager one too, which is made of operators that
    they document.
    """
    if spec.engine in NEURON_ENGINES:
        return "eager"
    local = any(getattr(config, name, None) for name in ("local_attention", "sliding_window"))
    return "eager" if local else None


def _activation(config: Any) -> str:
    """The activation that transformers' text-classification pipeline applies."""
    if config.problem_type == "regression":
        return "none"
    if config.problem_type == "multi_label_classification" or config.num_labels == 1:
        return "sigmoid"
    return "softmax"


def _read_heads(spec: Spec, folder: Path, width: int) -> nn.ModuleDict:
    """The heads that the spec names, with the weights in `heads.safetensors`."""
    from safetensors.torch import load_file

    heads = nn.ModuleDict({name: nn.Linear(width, len(head.labels)) for name, head in (spec.heads or {}).items()})
    try:
        heads.load_state_dict(load_file(str(folder / HEADS_FILE)))
    except Exception as error:  # missing, damaged, or of other names and sizes
        reason = " ".join(str(error).split())[:300]
        raise SourceError(f"{spec.name}: {spec.source}/{HEADS_FILE} does not fit the spec's heads: {reason}") from None
    return heads


def _pooling(spec: Spec, folder: Path) -> tuple[str, bool]:
    """Pooling and normalisation: the spec's, else the model's own sentence-transformers files'."""
    pooling, normalize = "mean", False
    modules = folder / "modules.json"
    if modules.is_file():
        normalize = any(entry["type"].endswith("Normalize") for entry in json.loads(modules.read_text()))
    config_file = folder / "1_Pooling" / "config.json"
    if config_file.is_file():
        pooling = _own_pooling(spec, json.loads(config_file.read_text()))
    return spec.pooling or pooling, normalize if spec.normalize is None else spec.normalize


def _own_pooling(spec: Spec, config: dict[str, Any]) -> str:
    flags = {
        "pooling_mode_mean_tokens": "mean",
        "pooling_mode_cls_token": "cls",
        "pooling_mode_max_tokens": "max",
        "pooling_mode_lasttoken": "last",
    }
    chosen = [flags.get(key, key) for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    if "pooling_mode" in config:
        chosen = [{"lasttoken": "last"}.get(config["pooling_mode"], config["pooling_mode"])]
    if len(chosen) != 1 or chosen[0] not in flags.values():
        if spec.pooling:
            return spec.pooling
        raise SourceError(f"{spec.name}: the model's own pooling {chosen} is not known; set pooling in the spec")
    return chosen[0]


def _positions(model: nn.Module, tokenizer: Any) -> int | None:
    """The longest sequence that fits the position embeddings.

    RoBERTa and its kin count positions from the padding id on, so they hold fewer tokens than
    they have embeddings; their tokenizer says how many.
    """
    limits = [getattr(model.config, "max_position_embeddings", None), tokenizer.model_max_length]
    known = [limit for limit in limits if isinstance(limit, int) and 0 < limit < 1_000_000]
    return min(known, default=None)
