"""Puts a model for a task into the form that compilers take."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from handlers.worker.artifact import POOLING_MASK, Head, Prompt
from handlers.worker.placement import NEURON_ENGINES
from marina.compiler.embedder import is_unit_length, load_embedder, pooling_of, read_prompts
from marina.compiler.loading import load_model, source_errors
from marina.compiler.modules import EmbeddingModel, HeadsModel, StaticPooling, TaskModel
from marina.compiler.source import encoder_folder
from marina.errors import SourceError
from marina.spec import Spec

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
HEADS_FILE = "heads.safetensors"


@dataclass(frozen=True)
class ExportedModel:
    """A model in evaluation mode, ready to compile.

    module takes the `inputs` positionally, each int64 of (batch_size, sequence_length), and
    returns a tuple of the `outputs`, each float32 with batch_size first. For prompts, default_prompt and
    unit_length see `handlers.worker.artifact.Artifact`.
    """

    module: nn.Module
    tokenizer: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    heads: dict[str, Head]  # the outputs that have labels
    positions: int | None  # the longest sequence that the model can read
    prompts: dict[str, Prompt] = field(default_factory=dict)
    default_prompt: str | None = None
    unit_length: bool = False


def export_model(spec: Spec, folder: Path) -> ExportedModel:
    """Load a model and its tokenizer for the spec's task, in float32.

    Raises:
        SourceError: the folder does not hold what the task needs.
    """
    attention = _attention(spec, encoder_folder(folder))
    if spec.task == "sentence-embedding":
        return _export_embedder(spec, folder, attention)
    model, tokenizer = load_model(spec, folder, attention)
    inputs = _inputs(model, tokenizer)
    outputs: tuple[str, ...]
    heads: dict[str, Head] = {}
    if spec.task == "question-answering":
        if tokenizer.padding_side == "left":
            raise SourceError(
                f"{spec.name}: the tokenizer of source {spec.source} pads on the left, where the question comes after "
                "the context; Marina reads it before"
            )
        module: nn.Module = TaskModel(model, 2, inputs)
        outputs = ("start_logits", "end_logits")
    elif spec.heads:
        module = HeadsModel(
            model, StaticPooling([pooling_of(spec, folder)]), read_heads(spec, folder, model.config.hidden_size), inputs
        )
        heads = {name: Head(head.labels, head.activation) for name, head in spec.heads.items()}
        outputs = tuple(heads)
    else:
        module = TaskModel(model, 1, inputs)
        labels = tuple(str(model.config.id2label[i]) for i in range(model.config.num_labels))
        activation = "softmax" if spec.task == "token-classification" else _activation(model.config)
        outputs, heads = ("logits",), {"logits": Head(labels, activation)}
    return ExportedModel(module.float().eval(), tokenizer, inputs, outputs, heads, _positions(model, tokenizer))


def read_heads(spec: Spec, folder: Path, width: int) -> nn.ModuleDict:
    """The heads that the spec names, with the weights in `heads.safetensors`; SourceError where they do not fit."""
    from safetensors.torch import load_file

    heads = nn.ModuleDict({name: nn.Linear(width, len(head.labels)) for name, head in (spec.heads or {}).items()})
    try:
        heads.load_state_dict(load_file(str(folder / HEADS_FILE)))
    except Exception as error:  # missing, damaged, or of other names and sizes
        reason = " ".join(str(error).split())[:300]
        raise SourceError(f"{spec.name}: {spec.source}/{HEADS_FILE} does not fit the spec's heads: {reason}") from None
    return heads


def _export_embedder(spec: Spec, folder: Path, attention: str | None) -> ExportedModel:
    model = load_embedder(spec, folder, attention)
    prompts = read_prompts(model)
    encoder, tokenizer = model[0].auto_model, model.tokenizer
    # pooling needs the mask, also where the encoder takes none
    inputs = tuple(name for name in INPUTS if name in (*_inputs(encoder, tokenizer), "attention_mask"))
    if any(prompt.tokens for prompt in prompts.values()):
        inputs = (*inputs, POOLING_MASK)
    limits = [limit for limit in (_positions(encoder, tokenizer), model.max_seq_length) if limit]
    return ExportedModel(
        module=EmbeddingModel(map(_static, model), model.truncate_dim, inputs).float().eval(),
        tokenizer=tokenizer,
        inputs=inputs,
        outputs=("embedding",),
        heads={},
        positions=min(limits, default=None),
        prompts=prompts,
        default_prompt=model.default_prompt_name,
        unit_length=is_unit_length(model),
    )


def _static(module: nn.Module) -> nn.Module:
    """A module of sentence-transformers in the form that graphs of every engine compute alike."""
    if type(module).__name__ != "Pooling":
        return module
    return StaticPooling([module.pooling_mode] if isinstance(module.pooling_mode, str) else module.pooling_mode)


def _inputs(model: nn.Module, tokenizer: Any) -> tuple[str, ...]:
    """What the tokenizer gives and the model takes."""
    accepted = inspect.signature(model.forward).parameters
    return tuple(name for name in INPUTS if name in tokenizer.model_input_names and name in accepted)


def _attention(spec: Spec, folder: Path) -> str | None:
    """The implementation of attention: transformers' own choice, but for two kinds.

    In models that look at neighbours only a padding token may have no token in reach, for which the
    fused kernels give NaN, and that spreads to real tokens; the eager implementation masks with a
    finite number. Neuron's compilers are given the eager one too, which is made of operators that
    they document.
    """
    if spec.engine in NEURON_ENGINES:
        return "eager"
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


def _positions(model: nn.Module, tokenizer: Any) -> int | None:
    """The longest sequence that fits the position embeddings.

    RoBERTa and its kin count positions from the padding id on, so they hold fewer tokens than
    they have embeddings; their tokenizer says how many.
    """
    limits = [getattr(model.config, "max_position_embeddings", None), tokenizer.model_max_length]
    known = [limit for limit in limits if isinstance(limit, int) and 0 < limit < 1_000_000]
    return min(known, default=None)
