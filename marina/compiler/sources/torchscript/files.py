"""The files of a TorchScript source: a module, and a tokenizer's folder or a second module that preprocesses.

They are loaded only for a spec that says `trusted: true`, which `marina.spec.sections.Source` checks.
"""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from handlers.worker.archive.artifact import sha256_of
from handlers.worker.scripts import load_script
from marina.compiler.hugging_face import PATTERNS
from marina.compiler.hugging_face.folder import HuggingFaceFolder
from marina.compiler.hugging_face.loading import auto_tokenizer, source_errors
from marina.errors import SourceError
from marina.spec import Spec

BYTES_PER_WEIGHT = 4
Files = TypeVar("Files", bound="TorchScriptFiles")


@dataclass(frozen=True)
class TorchScriptFiles:
    """The files of a TorchScript source.

    Attributes:
        spec: the model's spec.
        folder: the project's folder, to which the spec's paths are relative.
        module: the file of the model.
        tokenizer: the folder of its tokenizer, if it has one.
        preprocess: the file of the module that preprocesses texts, if it has one.
    """

    spec: Spec
    folder: Path
    module: Path
    tokenizer: Path | None
    preprocess: Path | None

    @classmethod
    def find(cls: type[Files], spec: Spec, root: Path) -> Files:
        """The files that a spec names; SourceError if one is missing, or is of the wrong kind."""
        module = root / str(spec.source.torchscript)
        tokenizer = root / spec.tokenizer if spec.tokenizer else None
        preprocess = root / spec.preprocess if spec.preprocess else None
        for path in (module, preprocess):
            if path and not path.is_file():
                raise SourceError(
                    f"{spec.name}: {path} does not exist; correct the path, which is relative to the project"
                )
            if path and not _is_torchscript(path):
                raise SourceError(
                    f"{spec.name}: {path} is not TorchScript; write the module with torch.jit.save, since other "
                    "pickles are not read"
                )
        if tokenizer and not (tokenizer / "tokenizer.json").is_file():
            raise SourceError(f"{spec.name}: {tokenizer} has no tokenizer.json; save a fast tokenizer there")
        return cls(spec, root, module, tokenizer, preprocess)

    def fingerprint(self) -> str:
        """sha256 over their contents."""
        digest = hashlib.sha256()
        paths = [self.module, *([self.preprocess] if self.preprocess else [])]
        if self.tokenizer:
            paths += sorted(path for pattern in PATTERNS for path in self.tokenizer.glob(pattern))
        for path in paths:
            digest.update(f"{path.name}\0{sha256_of(path)}\n".encode())
        return digest.hexdigest()

    def count_weights(self) -> int:
        """The number of weights, from the size of the module's file, as if all were float32."""
        return self.module.stat().st_size // BYTES_PER_WEIGHT


def _is_torchscript(path: Path) -> bool:
    """Whether a file is an archive of torch.jit.save, which has a folder of code beside its tensors."""
    try:
        with zipfile.ZipFile(path) as file:
            return any("/code/" in name for name in file.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def load_module(spec: Spec, path: Path) -> Any:
    """A TorchScript module in evaluation mode and float32; SourceError if it cannot be loaded."""
    with source_errors(spec, "PyTorch"):
        module = load_script(path, "cpu")
        return module.float().eval() if hasattr(module, "training") else module


def load_tokenizer(spec: Spec, folder: Path) -> Any:
    """The fast tokenizer in a folder; SourceError if it cannot be loaded."""
    import transformers

    if (folder / "tokenizer_config.json").is_file() or (folder / "config.json").is_file():
        return auto_tokenizer(HuggingFaceFolder(spec, folder))
    with source_errors(spec, "transformers", "load the tokenizer of"):
        return transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
