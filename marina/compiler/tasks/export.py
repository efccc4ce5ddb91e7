"""Code shared by the exports of several tasks."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from torch import nn

from handlers.worker.archive.signature import ATTENTION_MASK, POSITION_IDS, TOKENIZER_INPUTS, Head
from marina.compiler.hugging_face.embedder import EMBEDDING, read_prompts
from marina.compiler.hugging_face.folder import HuggingFaceFolder
from marina.compiler.hugging_face.loading import load_model, read_configuration
from marina.compiler.tasks.outputs import ONE_HEAD
from marina.compiler.tasks.packed import PackedEmbeddingModel, PackedTaskModel
from marina.compiler.tasks.wrappers import EmbeddingModel, TaskModel
from marina.engines import engine_of
from marina.engines.model import ExportedModel, packed_names


def export_classifier(
    source: HuggingFaceFolder, head: str, attention: str | None, activation: str | None, per_token: bool = False
) -> ExportedModel:
    """A transformers model with a head that has labels, in float32.

    Args:
        source: the model's folder.
        head: the suffix of transformers' class names for the head.
        attention: the attention implementation, or None.
        activation: the activation of its logits; None for the one in the model's configuration.
        per_token: whether the outputs are for tokens.
    """
    model, tokenizer = load_model(source, f"AutoModel{head}", attention)
    labels = tuple(model.config.id2label[i] for i in range(model.config.num_labels))
    heads = {ONE_HEAD: Head(labels, activation or _activation(model.config))}
    return with_head(model, tokenizer, (ONE_HEAD,), heads, per_token)


def with_head(
    model: Any, tokenizer: Any, outputs: tuple[str, ...], heads: dict[str, Head], per_token: bool = False
) -> ExportedModel:
    """A transformers model with a head, in float32.

    Args:
        model: the library's model.
        tokenizer: its tokenizer.
        outputs: names for its first outputs.
        heads: the labels and the activation of each output that has them.
        per_token: whether the outputs are for tokens.
    """
    inputs = inputs_of(model, tokenizer)
    return ExportedModel(
        TaskModel(model, len(outputs), inputs).float().eval(),
        tokenizer,
        inputs,
        outputs,
        heads,
        positions_of(model.config, tokenizer),
        padding_position=padding_position_of(model),
        per_token=per_token,
        pack=lambda dims: PackedTaskModel(model, len(outputs), packed_names(inputs), per_token, dims),
    )


def export_embedder(
    model: Any,
    steps: Sequence[nn.Module],
    inputs: tuple[str, ...],
    output: str,
    width: int | None = None,
    feature: str = EMBEDDING,
    **fields: Any,
) -> ExportedModel:
    """A model of sentence-transformers, in float32.

    Args:
        model: the library's model.
        steps: its modules, in forms that graphs compute.
        inputs: names of the arguments.
        output: the name of the output.
        width: the number of values of a vector to keep; None for all.
        feature: the library's name of the output.
        fields: others of `ExportedModel`, or instead of those that all have.
    """
    encoder, tokenizer = model[0].auto_model, model.tokenizer
    limits = [limit for limit in (positions_of(encoder.config, tokenizer), model.max_seq_length) if limit]
    common: dict[str, Any] = {
        "positions": min(limits, default=None),
        "prompts": read_prompts(model),
        "padding_position": padding_position_of(encoder),
        "pack": lambda dims: PackedEmbeddingModel(steps, width, packed_names(inputs), dims, feature),
    }
    module = EmbeddingModel(steps, width, inputs, feature).float().eval()
    return ExportedModel(module, tokenizer, inputs, (output,), {}, **{**common, **fields})


def inputs_of(model: nn.Module, tokenizer: Any) -> tuple[str, ...]:
    """The inputs that the tokenizer produces and the model accepts, and position ids if the model needs them."""
    accepted = inspect.signature(model.forward).parameters
    names = tuple(name for name in TOKENIZER_INPUTS if name in tokenizer.model_input_names and name in accepted)
    return names if padding_position_of(model) is None else (*names, POSITION_IDS)


def inputs_for_pooling(encoder: nn.Module, tokenizer: Any) -> tuple[str, ...]:
    """`inputs_of` with the mask, which pooling needs even if the encoder does not accept one."""
    names = (*inputs_of(encoder, tokenizer), ATTENTION_MASK)
    return tuple(name for name in (*TOKENIZER_INPUTS, POSITION_IDS) if name in names)


def padding_position_of(model: nn.Module) -> int | None:
    """The position id of padding in models that number tokens by their ids, as RoBERTa; None for other models.

    Such models have no vector at that position, which `nn.Embedding` calls padding_idx.
    """
    if POSITION_IDS not in inspect.signature(model.forward).parameters:
        return None
    tables = (getattr(module, "position_embeddings", None) for module in model.modules())
    padding = (table.padding_idx for table in tables if isinstance(table, nn.Embedding))
    return next(padding, None)


def attention_of(source: HuggingFaceFolder) -> str | None:
    """The attention implementation: the engine's, else transformers' own choice, with one exception.

    In models with local attention, a padding token may have no token within reach. The fused kernels then
    give NaN, which spreads to real tokens. For these models the eager implementation is used, which masks with a
    finite number.
    """
    engine_attention = engine_of(source.spec.engine).attention
    if engine_attention is not None:
        return engine_attention
    config = read_configuration(source)
    has_local_attention = any(getattr(config, name, None) for name in ("local_attention", "sliding_window"))
    return "eager" if has_local_attention else None


def _activation(config: Any) -> str:
    """The activation that transformers' text-classification pipeline applies."""
    if config.problem_type == "regression":
        return "none"
    if config.problem_type == "multi_label_classification" or config.num_labels == 1:
        return "sigmoid"
    return "softmax"


def positions_of(config: Any, tokenizer: Any) -> int | None:
    """The longest sequence that fits the position embeddings.

    RoBERTa and related models number positions from the padding id on, so they hold fewer tokens than
    they have embeddings; their tokenizer specifies how many.
    """
    limits = [getattr(config, "max_position_embeddings", None), tokenizer.model_max_length]
    valid_limits = [limit for limit in limits if isinstance(limit, int) and 0 < limit < 1_000_000]
    return min(valid_limits, default=None)
