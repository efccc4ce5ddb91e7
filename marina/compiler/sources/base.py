"""The interface of sources of every kind: what compiling needs from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:  # these import torch, which takes seconds
    from marina.compiler.reference import Reference
    from marina.engines.model import ExportedModel


class Description(NamedTuple):
    """The description of a model from its files, without loading its weights.

    Attributes:
        architecture: the model's architecture.
        tokenizer: its class and the size of its vocabulary, or the file that preprocesses texts.
        positions: the number of tokens that the model can read; None if there is no limit.
    """

    architecture: str
    tokenizer: str
    positions: int | None


class ModelSource(Protocol):
    """The source of a spec."""

    @property
    def folder(self) -> Path:
        """The folder of the model's files; of TorchScript files, the project's."""

    def fingerprint(self) -> str:
        """sha256 over the files."""

    def count_weights(self) -> int:
        """The number of weights; reads only their shapes."""

    def describe(self) -> Description:
        """The model without its weights; SourceError if it cannot be for the spec's task."""

    def export(self) -> ExportedModel:
        """Load the model in float32, and wrap it for compiling; SourceError if it is not what the task needs."""

    def open_reference(self) -> Reference:
        """Load the same model with its own library; SourceError if that fails."""
