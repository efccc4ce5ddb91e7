"""Locates the weights that a spec names, as a folder on this machine.

Enters: the name or the folder of a model. Leaves: the folder, and what its files say. Not known here: other fields of
specs.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import math
from collections.abc import Sequence
from pathlib import Path

from handlers.worker.archive.artifact import sha256_of
from marina.errors import SourceError
from marina.spec.sections import Source

# The files that libraries read: configuration, tokenizer and safetensors; never a pickle. ColBERT's own code writes the
# last.
PATTERNS = ("*.json", "*.safetensors", "*.txt", "*.model", "artifact.metadata")
MODULES_FILE = "modules.json"
ADAPTER = "adapter_model.safetensors"  # of PEFT; no weights of a whole model


def find_source(source: Source, root: Path) -> Path:
    """The folder that holds the model.

    Args:
        source: the spec's source.
        root: the project's folder, to which `path` is relative.

    Raises:
        SourceError: the folder does not exist, or contains no safetensors weights.
    """
    if source.torchscript:
        raise SourceError(f"source {source} is a TorchScript file, and this needs a Hugging Face folder")
    if source.package:
        folder = _package_folder(source.package) / (source.folder or "")
    elif source.path:
        folder = root / source.path
    else:
        folder = hub_folder(str(source.hub), str(source.revision))
    encoder = encoder_folder(folder)
    has_config, weights = (encoder / "config.json").is_file(), {path.name for path in encoder.glob("*.safetensors")}
    if not has_config or not weights - {ADAPTER}:
        check_contents(source, folder, encoder)
    if not has_config:
        raise SourceError(f"source {source}: no model there (config.json is missing); correct the source in the spec")
    if not weights:
        raise SourceError(
            f"source {source}: no .safetensors weights there; load the model once with transformers "
            "and write it with save_pretrained, since pickled weights are not read"
        )
    return folder


def check_contents(source: Source, folder: Path, encoder: Path) -> None:
    """Refuse a folder that holds no transformers model; SourceError names what it holds instead."""
    for module in read_modules(folder)[:1]:
        if not module["type"].endswith("Transformer"):
            raise SourceError(
                f"source {source}: its first module is {module['type']}, which holds no transformers model",
                "Marina compiles models of sentence-transformers that begin with a Transformer",
            )
    adapter = encoder / "adapter_config.json"
    if adapter.is_file():
        raise SourceError(
            f"source {source}: a PEFT adapter alone, without the model that it adapts",
            "load both with peft, and write the result of merge_and_unload() with save_pretrained",
        )
    if any(encoder.glob("*.gguf")):
        raise SourceError(
            f"source {source}: weights for llama.cpp (GGUF), which are not read",
            "take the folder that they were made from, with config.json and .safetensors",
        )


def encoder_folder(folder: Path) -> Path:
    """The folder of the transformers model: older releases of sentence-transformers put it in a subfolder."""
    modules = read_modules(folder)
    return folder / modules[0]["path"] if modules else folder


def read_modules(folder: Path) -> list[dict[str, str]]:
    """A model's modules as sentence-transformers lists them, in order: type and path; empty if there is no list.

    Raises:
        SourceError: its modules.json cannot be read, or names folders outside the model's.
    """
    path = folder / MODULES_FILE
    if not path.is_file():
        return []
    try:
        modules = [{"type": str(entry["type"]), "path": str(entry["path"])} for entry in json.loads(path.read_text())]
    except (ValueError, TypeError, KeyError) as error:
        raise SourceError(f"{path} does not list modules of sentence-transformers: {error!r}") from None
    for module in modules:
        if not (folder / module["path"]).resolve().is_relative_to(folder.resolve()):
            raise SourceError(f"{path} names a folder outside of the model's: {module['path']}")
    if not modules:
        raise SourceError(f"{path} lists no module")
    return modules


def weight_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each weight in a folder's safetensors, by name."""
    from safetensors import safe_open

    shapes: dict[str, tuple[int, ...]] = {}
    for path in folder.glob("*.safetensors"):
        with safe_open(str(path), framework="np") as file:
            shapes |= {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118  not a dict
    return shapes


def fingerprint(folder: Path) -> str:
    """sha256 over the names and contents of the files that make up the model, including those of its modules."""
    digest = hashlib.sha256()
    folders = {folder, *(folder / module["path"] for module in read_modules(folder))}
    for path in sorted(
        {path for module_folder in folders for pattern in PATTERNS for path in module_folder.glob(pattern)}
    ):
        digest.update(f"{path.relative_to(folder)}\0{sha256_of(path)}\n".encode())
    return digest.hexdigest()


def count_weights(folder: Path) -> int:
    """The total number of weights in a model's folder."""
    return sum(math.prod(shape) for shape in weight_shapes(encoder_folder(folder)).values())


def encoder_weights(folder: Path, total: int) -> int:
    """The number of weights that are multiplied: the `total` without the table of words, if its size is known."""
    try:
        config = json.loads((encoder_folder(folder) / "config.json").read_text(encoding="utf-8"))
        return total - int(config["vocab_size"]) * int(config.get("embedding_size", config["hidden_size"]))
    except (OSError, ValueError, KeyError):
        return total


def _package_folder(package: str) -> Path:
    try:
        module_spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        module_spec = None
    if module_spec is None or not module_spec.submodule_search_locations:
        raise SourceError(f"source: the Python package {package} is not installed; install it with pip")
    return Path(module_spec.submodule_search_locations[0])


def hub_folder(model: str, revision: str, patterns: Sequence[str] = PATTERNS) -> Path:
    """The folder on this machine of a model of the Hugging Face hub, fetched if it is not there yet.

    Args:
        model: its id.
        revision: its revision.
        patterns: names of the files to fetch; `*` also stands for folders.

    Raises:
        SourceError: it cannot be fetched.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it logs every retry
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=list(patterns)))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise hub_error(f"source {model}@{revision} cannot be fetched from the Hugging Face hub", error) from None


def hub_error(failure: str, error: Exception) -> SourceError:
    """The hub's own message, complete and on one line, and what to do without network access."""
    return SourceError(
        f"{failure}: {' '.join(str(error).split()).rstrip('.')}",
        "without network, copy the model from a machine that has it (huggingface_hub.snapshot_download fetches it), "
        "and name its folder",
    )
