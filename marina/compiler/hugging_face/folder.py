"""The folder of a spec's model, as Hugging Face's libraries read it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from marina.compiler.hugging_face import count_weights, encoder_folder, find_source, fingerprint
from marina.errors import SourceError
from marina.spec import Spec

Folder = TypeVar("Folder", bound="HuggingFaceFolder")


@dataclass(frozen=True)
class HuggingFaceFolder:
    """A spec with the folder that its source names.

    Attributes:
        spec: the model's spec.
        folder: the model's folder.
    """

    spec: Spec
    folder: Path

    @classmethod
    def find(cls: type[Folder], spec: Spec, root: Path) -> Folder:
        """The folder that a spec names, in the project, a package or the hub; SourceError if none is there."""
        try:
            return cls(spec, find_source(spec.source, root))
        except SourceError as error:
            raise SourceError(f"{spec.name}: {error}") from None

    @property
    def title(self) -> str:
        """How messages begin that are about the folder."""
        return f"{self.spec.name}: source {self.spec.source}"

    def encoder(self: Folder) -> Folder:
        """The same with the folder of the transformers model."""
        return replace(self, folder=encoder_folder(self.folder))

    def fingerprint(self) -> str:
        """sha256 over the files."""
        return fingerprint(self.folder)

    def count_weights(self) -> int:
        """The number of weights; reads only their shapes."""
        return count_weights(self.folder)
