"""A folder of Hugging Face or of sentence-transformers as the source of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marina.compiler.hugging_face.folder import HuggingFaceFolder
from marina.compiler.hugging_face.loading import load_configuration
from marina.compiler.sources.base import Description

if TYPE_CHECKING:
    from marina.compiler.reference import Reference
    from marina.engines.model import ExportedModel


class ModelFolder(HuggingFaceFolder):
    """See `ModelSource`."""

    def describe(self) -> Description:
        from marina.compiler.tasks import EXPORTERS, check_head
        from marina.compiler.tasks.export import positions_of

        check_head(self)
        EXPORTERS[self.spec.task].check_folder(self)
        config, tokenizer = load_configuration(self.encoder())
        return Description(
            architecture=", ".join(config.architectures or [config.model_type]),
            tokenizer=f"{type(tokenizer).__name__}, {len(tokenizer)} tokens",
            positions=positions_of(config, tokenizer),
        )

    def export(self) -> ExportedModel:
        from marina.compiler.tasks import EXPORTERS, check_head
        from marina.compiler.tasks.export import attention_of

        check_head(self)
        return EXPORTERS[self.spec.task].export(self, attention_of(self.encoder()))

    def open_reference(self) -> Reference:
        from marina.compiler.tasks import EXPORTERS

        return EXPORTERS[self.spec.task].open_reference(self)
