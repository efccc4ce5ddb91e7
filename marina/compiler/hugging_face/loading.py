"""Loads a Hugging Face model and its tokenizer for a task; refuses a folder without what the task needs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from textwrap import shorten
from typing import Any

from marina.compiler.hugging_face.folder import HuggingFaceFolder
from marina.errors import SourceError
from marina.files import read_object
from marina.spec import Spec

ENCODER = "AutoModel"  # transformers' class for encoders without a head


def load_model(source: HuggingFaceFolder, auto_class: str, attention: str | None = None) -> tuple[Any, Any]:
    """A transformers model and its fast tokenizer.

    Args:
        source: the model's folder.
        auto_class: the class of transformers that loads it; "AutoModel" for an encoder without a head.
        attention: the attention implementation; None for transformers' own choice.

    Raises:
        SourceError: the folder does not contain what the task needs.
    """
    import transformers

    config, tokenizer = load_configuration(source)
    # the cache that a decoder keeps for the next token is useless here, and OpenVINO cannot convert it
    config.use_cache = False
    disable_torch_compile(config)
    with source_errors(source.spec, "transformers"):
        model, loading = getattr(transformers, auto_class).from_pretrained(
            source.folder,
            config=config,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            attn_implementation=attention,
            local_files_only=True,
            trust_remote_code=False,
        )
    check_sizes(source, loading["mismatched_keys"])
    check_weights(source, loading["missing_keys"], encoder_only=auto_class == ENCODER)
    check_finite(source, model)
    check_vocabulary(source, model, tokenizer)
    return model, tokenizer


def disable_torch_compile(config: Any) -> None:
    """Keep the layers of ModernBERT from compiling themselves with torch.compile, which cannot be traced.

    transformers decides at the first call: on a CPU it compiles nothing; elsewhere it does, if triton is installed.
    """
    if hasattr(config, "reference_compile"):
        config.reference_compile = False


def load_configuration(source: HuggingFaceFolder) -> tuple[Any, Any]:
    """The transformers configuration of a model and its fast tokenizer; SourceError as in `load_model`."""
    config = read_configuration(source)
    tokenizer = auto_tokenizer(source)
    check_tokenizer_files(source, tokenizer)
    return config, tokenizer


def read_configuration(source: HuggingFaceFolder) -> Any:
    """The transformers configuration of a model; SourceError if it cannot be read."""
    import transformers

    check_labels(source)
    with source_errors(source.spec, "transformers"):
        return transformers.AutoConfig.from_pretrained(source.folder, local_files_only=True, trust_remote_code=False)


def auto_tokenizer(source: HuggingFaceFolder) -> Any:
    """The tokenizer that transformers finds in a folder; SourceError if it cannot be loaded."""
    import transformers

    with source_errors(source.spec, "transformers", "load the tokenizer of"):
        return transformers.AutoTokenizer.from_pretrained(
            source.folder, use_fast=True, local_files_only=True, trust_remote_code=False
        )


@contextmanager
def source_errors(spec: Spec, library: str, action: str = "load") -> Iterator[None]:
    """Raise a library's errors about a folder as one-line SourceErrors; turn off its warnings and progress bars."""
    from transformers.utils.logging import disable_progress_bar, set_verbosity_error

    disable_progress_bar()
    set_verbosity_error()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    try:
        yield
    except SourceError:
        raise
    except Exception as error:  # a damaged file can make the library raise any error
        message = str(error) if " " in str(error) else f"{type(error).__name__} {error}"
        reason = shorten(message, 300, placeholder=" ...")
        if "trust_remote_code" in str(error):
            reason = "its architecture needs Python code of its own (auto_map in config.json), which is not run"
        raise SourceError(f"{spec.name}: {library} cannot {action} source {spec.source}: {reason}") from None


def check_tokenizer_files(source: HuggingFaceFolder, tokenizer: Any) -> None:
    """Refuse a folder without a tokenizer, for which transformers 5 creates an empty one, and slow tokenizers."""
    names = {"tokenizer.json", *type(tokenizer).vocab_files_names.values()}
    if not any((source.folder / name).is_file() for name in names if isinstance(name, str)):
        raise SourceError(
            f"{source.title} has no tokenizer files (none of {', '.join(sorted(names))}); save the "
            "model's own there with its save_pretrained"
        )
    if not tokenizer.is_fast:
        raise SourceError(f"{source.title} has no fast tokenizer (tokenizer.json)")


def check_labels(source: HuggingFaceFolder) -> None:
    """Refuse a configuration whose labels are not those of outputs 0, 1, 2 and so on."""
    # transformers reports a file better that is missing or damaged
    labels = (read_object(source.folder / "config.json") or {}).get("id2label")
    if labels is None or (isinstance(labels, dict) and set(labels) == {str(i) for i in range(len(labels))}):
        return
    kind = f"labels for {', '.join(labels)[:100]}" if isinstance(labels, dict) else f"a {type(labels).__name__}"
    raise SourceError(
        f"{source.title}: id2label in its config.json has {kind}",
        'write a label for each output of the head, from 0 without gaps: {"0": "first", "1": "second"}',
    )


def check_sizes(source: HuggingFaceFolder, mismatched_keys: Iterable[Any]) -> None:
    """Refuse weights of other sizes than the configuration gives."""
    # transformers 4 has names or tuples that begin with them, by release, and 5 has such tuples in a set
    names = sorted(key if isinstance(key, str) else key[0] for key in mismatched_keys)
    if names:
        raise SourceError(
            f"{source.title}: its weights {names[0]} have another size than config.json says",
            "restore the config.json that was saved with them; its id2label has a label for each output of the head",
        )


def check_weights(source: HuggingFaceFolder, missing_keys: list[str], encoder_only: bool) -> None:
    """Refuse a model if some of its weights were randomly initialised."""
    # the pooler of an encoder does not affect its token vectors
    missing = sorted(key for key in missing_keys if not (encoder_only and "pooler." in key))
    if missing:
        raise SourceError(
            f"{source.title} has no weights for {missing[0]} ({len(missing)} missing); "
            f"it was not trained for the task {source.spec.task}"
        )


def check_finite(source: HuggingFaceFolder, model: Any) -> None:
    """Refuse a model with weights that are NaN or infinite, as after a training that has failed."""
    import torch

    name = next((name for name, weight in model.named_parameters() if not torch.isfinite(weight).all()), None)
    if name is not None:
        raise SourceError(
            f"{source.title}: its weights {name} have NaN or infinite numbers",
            "take a checkpoint from before the training failed",
        )


def check_vocabulary(source: HuggingFaceFolder, model: Any, tokenizer: Any) -> None:
    """Refuse a tokenizer with tokens for which the model has no embedding."""
    try:
        rows = getattr(model.get_input_embeddings(), "num_embeddings", None)
    except NotImplementedError:  # models that read characters have no table of token embeddings
        return
    token, largest = max(tokenizer.get_vocab().items(), key=lambda entry: int(entry[1]), default=("", -1))
    if rows is not None and largest >= rows:
        raise SourceError(
            f"{source.title}: its tokenizer numbers tokens up to {largest} ({token!r}), the model has "
            f"embeddings for {rows}; take the tokenizer that it was trained with"
        )
