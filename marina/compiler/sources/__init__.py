"""Where a model comes from: `open_source` gives a spec's source, which knows its files and how they become a model.

Enters: the source of a spec. Leaves: a value that knows its files, its fingerprint and its model. Not known here:
graphs.

One file a kind: folders of Hugging Face and of sentence-transformers, and TorchScript files.
"""

from __future__ import annotations

from pathlib import Path

from marina.compiler.sources.base import ModelSource
from marina.compiler.sources.folder import ModelFolder
from marina.compiler.sources.torchscript import TorchScriptSource
from marina.spec import Spec


def open_source(spec: Spec, root: Path) -> ModelSource:
    """The source of a spec in a project's folder; SourceError if its files are missing, or are something else."""
    return TorchScriptSource.find(spec, root) if spec.source.torchscript else ModelFolder.find(spec, root)


def source_at(spec: Spec, folder: Path) -> ModelSource:
    """The same source for another process, which has `ModelSource.folder`."""
    return TorchScriptSource.find(spec, folder) if spec.source.torchscript else ModelFolder(spec, folder)
