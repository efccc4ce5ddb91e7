"""TorchScript files as the source of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marina.compiler.sources.base import Description
from marina.compiler.sources.torchscript.files import TorchScriptFiles

if TYPE_CHECKING:
    from marina.compiler.reference import Reference
    from marina.engines.model import ExportedModel


class TorchScriptSource(TorchScriptFiles):
    """See `ModelSource`."""

    def describe(self) -> Description:
        """The description in the spec: the code of the files only runs while the model is compiled."""
        return Description("TorchScript", str(self.spec.tokenizer or self.spec.preprocess), None)

    def export(self) -> ExportedModel:
        from marina.compiler.sources.torchscript.export import export_module
        from marina.compiler.tasks import EXPORTERS

        return export_module(self, EXPORTERS[self.spec.task].outputs)

    def open_reference(self) -> Reference:
        from marina.compiler.sources.torchscript.reference import TorchScriptReference
        from marina.compiler.tasks import EXPORTERS

        return TorchScriptReference(self, EXPORTERS[self.spec.task].outputs)
