"""Finds the weights that a spec names, as a folder on this machine."""

from __future__ import annotations

import hashlib
import importlib.util
import math
from pathlib import Path

from handlers.worker.artifact import sha256_of
from marina.errors import SourceError
from marina.spec.sections import Source

# What `from_pretrained` reads: configuration, tokenizer and safetensors; never a pickle.
PATTERNS = ("*.json", "*.safetensors", "*.txt", "*.model", "1_Pooling/config.json")


def find_source(source: Source, root: Path) -> Path:
    """The folder that holds the model.

    Args:
        source: from the spec.
        root: the project's folder, to which `path` is relative.

    Raises:
        SourceError: it is not there, or holds no safetensors weights.
    """
    if source.package:
        folder = _package_folder(source.package) / (source.folder or "")
    elif source.path:
        folder = root / source.path
    else:
        folder = _hub_folder(str(source.hub), str(source.revision))
    if not (folder / "config.json").is_file():
        raise SourceError(f"source {source}: no model there (config.json is missing); correct the source in the spec")
    if not any(folder.glob("*.safetensors")):
        raise SourceError(
            f"source {source}: no .safetensors weights there; load the model once with transformers "
            "and write it with save_pretrained, since pickled weights are not read"
        )
    return folder


def fingerprint(folder: Path) -> str:
    """sha256 over the names and contents of the files that make the model."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in PATTERNS for path in folder.glob(pattern)}):
        digest.update(f"{path.relative_to(folder)}\0{sha256_of(path)}\n".encode())
    return digest.hexdigest()


def count_weights(folder: Path) -> int:
    """How many numbers the weights of a model's folder hold."""
    from safetensors import safe_open

    count = 0
    for path in folder.glob("*.safetensors"):
        with safe_open(str(path), framework="np") as file:
            count += sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118  not a dict
    return count


def _package_folder(package: str) -> Path:
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        found = None
    if found is None or not found.submodule_search_locations:
        raise SourceError(f"source: the Python package {package} is not installed; install it with pip")
    return Path(found.submodule_search_locations[0])


def _hub_folder(model: str, revision: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=list(PATTERNS)))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise SourceError(f"source {model}@{revision} cannot be fetched from the hub: {reason}") from None
