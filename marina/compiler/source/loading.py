"""Loads a Hugging Face model and its tokenizer for a task; refuses a folder that does not hold what the task needs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from marina.errors import SourceError
from marina.spec import Spec

ENCODER = "AutoModel"  # transformers' class for encoders without a head


def load_model(spec: Spec, folder: Path, auto_class: str, attention: str | None = None) -> tuple[Any, Any]:
    """A transformers model, and its fast tokenizer.

    Args:
        spec: the model's.
        folder: that holds it.
        auto_class: of transformers, which loads it; "AutoModel" for an encoder without a head.
        attention: the implementation of attention; None for transformers' own choice.

    Raises:
        SourceError: the folder does not hold what the task needs.
    """
    import transformers

    with source_errors(spec, "transformers"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, use_fast=True, local_files_only=True, trust_remote_code=False
        )
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        # what a decoder keeps for the next token has no use here, and OpenVINO cannot convert it
        config.use_cache = False
    check_tokenizer_files(spec, folder, tokenizer)
    with source_errors(spec, "transformers"):
        model, loading = getattr(transformers, auto_class).from_pretrained(
            folder,
            config=config,
            use_safetensors=True,
            output_loading_info=True,
            attn_implementation=attention,
            local_files_only=True,
            trust_remote_code=False,
        )
    check_weights(spec, loading["missing_keys"], encoder_only=auto_class == ENCODER)
    check_vocabulary(spec, model, tokenizer)
    return model, tokenizer


@contextmanager
def source_errors(spec: Spec, library: str, does: str = "load") -> Iterator[None]:
    """Raise what a library raises over a folder as a SourceError of one line, with its warnings and bars off."""
    from transformers.utils.logging import disable_progress_bar, set_verbosity_error

    disable_progress_bar()
    set_verbosity_error()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    try:
        yield
    except SourceError:
        raise
    except Exception as error:  # whatever a damaged file makes the library raise
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise SourceError(f"{spec.name}: {library} cannot {does} source {spec.source}: {reason}") from None


def check_tokenizer_files(spec: Spec, folder: Path, tokenizer: Any) -> None:
    """Refuse a folder without a tokenizer, for which transformers 5 makes up an empty one, and slow tokenizers."""
    names = {"tokenizer.json", *type(tokenizer).vocab_files_names.values()}
    if not any((folder / name).is_file() for name in names if isinstance(name, str)):
        raise SourceError(
            f"{spec.name}: source {spec.source} has no tokenizer files (none of {', '.join(sorted(names))}); save the "
            "model's own there with its save_pretrained"
        )
    if not tokenizer.is_fast:
        raise SourceError(f"{spec.name}: source {spec.source} has no fast tokenizer (tokenizer.json)")


def check_weights(spec: Spec, missing_keys: list[str], encoder_only: bool) -> None:
    """Refuse a model some of whose weights were made up."""
    # the pooler of an encoder is not part of its token vectors
    missing = sorted(key for key in missing_keys if not (encoder_only and "pooler." in key))
    if missing:
        raise SourceError(
            f"{spec.name}: source {spec.source} has no weights for {missing[0]} ({len(missing)} missing); "
            f"it was not trained for the task {spec.task}"
        )


def check_vocabulary(spec: Spec, model: Any, tokenizer: Any) -> None:
    """Refuse a tokenizer with tokens that the model has no embedding for."""
    try:
        rows = getattr(model.get_input_embeddings(), "num_embeddings", None)
    except NotImplementedError:  # models that read characters have no table of tokens
        return
    token, largest = max(tokenizer.get_vocab().items(), key=lambda entry: int(entry[1]), default=("", -1))
    if rows is not None and largest >= rows:
        raise SourceError(
            f"{spec.name}: the tokenizer of source {spec.source} numbers tokens up to {largest} ({token!r}), the model "
            f"has embeddings for {rows}; take the tokenizer that it was trained with"
        )
