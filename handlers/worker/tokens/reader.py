"""Opens a model's reader, which turns instances into rows: its tokenizer, or a preprocessing module in its place."""

from __future__ import annotations

from handlers.worker.archive.artifact import PREPROCESSOR_FILE, TOKENIZER_FILE, Locate
from handlers.worker.archive.signature import Signature
from handlers.worker.tokens.preprocess import Preprocessor
from handlers.worker.tokens.tokenizer import RowTokenizer

RowReader = RowTokenizer | Preprocessor


def reader_file(signature: Signature) -> str:
    """The name of the reader's file in an artifact."""
    return PREPROCESSOR_FILE if signature.tensors else TOKENIZER_FILE


def open_reader(locate: Locate, signature: Signature) -> RowReader:
    """Open the reader of a model; ArtifactError if its file cannot be read.

    Args:
        locate: finds the files of the artifact.
        signature: the model's signature.
    """
    path = locate(reader_file(signature))
    if signature.tensors:
        return Preprocessor(path, signature.inputs)
    return RowTokenizer(path, signature.truncation_side)
