"""A folder of Hugging Face or of sentence-transformers as the source of a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from marina.compiler.hugging_face import count_weights, encoder_folder, find_source, fingerprint
from marina.compiler.hugging_face.loading import load_configuration
from marina.compiler.sources.base import Description
from marina.errors import SourceError
from marina.spec import Spec

if TYPE_CHECKING:
    from marina.compiler.reference import Reference
    from marina.engines.model import ExportedModel


@dataclass(frozen=True)
class ModelFolder:
    """See `ModelSource`.

    Attributes:
        spec: the model's spec.
        folder: the model's folder.
    """

    spec: Spec
    folder: Path

    @classmethod
    def find(cls, spec: Spec, root: Path) -> ModelFolder:
        """The folder that a spec names, in the project, a package or the hub; SourceError if none is there."""
        try:
            return cls(spec, find_source(spec.source, root))
        except SourceError as error:
            raise SourceError(f"{spec.name}: {error}") from None

    def fingerprint(self) -> str:
        return fingerprint(self.folder)

    def count_weights(self) -> int:
        return count_weights(self.folder)

    def describe(self) -> Description:
        from marina.compiler.tasks import EXPORTERS, check_head
        from marina.compiler.tasks.export import positions_of

        check_head(self.spec, self.folder)
        EXPORTERS[self.spec.task].check_folder(self.spec, self.folder)
        config, tokenizer = load_configuration(self.spec, encoder_folder(self.folder))
        return Description(
            architecture=", ".join(config.architectures or [config.model_type]),
            tokenizer=f"{type(tokenizer).__name__}, {len(tokenizer)} tokens",
            positions=positions_of(config, tokenizer),
        )

    def export(self) -> ExportedModel:
        from marina.compiler.tasks import export_model

        return export_model(self.spec, self.folder)

    def open_reference(self) -> Reference:
        from marina.compiler.tasks import EXPORTERS

        return EXPORTERS[self.spec.task].open_reference(self.spec, self.folder)
