"""Writes what a newcomer starts from: an empty project, and the spec of a model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from handlers.worker.tasks import TASKS
from marina.compiler.source import MODULES_FILE, encoder_folder
from marina.errors import MarinaError, SourceError
from marina.project import Project
from marina.spec import make_spec

TEMPLATE = Path(__file__).parent / "template"
IGNORED = "build/\nmodel_store/*.mar\nkey_file.json\n"
LENGTHS = {"question-answering": (128, 384)}
USUAL_LENGTHS = (32, 128)
SPEC = """\
# Every field is documented in marina/spec.py and marina/sections.py.
name: {name}
task: {task}
source:
{source}
shapes:
  # every text is padded to one of these lengths; marina shapes {name} --write finds the best for your texts
  sequence_lengths: {lengths}
  batch_sizes: [1, 8]
# For speed, name a file of texts like those that you will serve, and let Marina choose the precision:
# examples: texts.csv
# precision: auto
# For Inferentia, neuron (Inf1) or neuronx (Inf2, Trn1), here with one worker on each of two cores:
# engine: neuronx
# core_groups: "1,1"
"""


def new_project(root: Path) -> Project:
    """Make an empty project.

    Raises:
        MarinaError: there is one already.
    """
    project = Project(root.resolve())
    if (root / "config.properties").exists() or project.models.exists():
        raise MarinaError(f"{root} is a project already", "name another folder")
    for folder in (project.models, project.model_store, project.root / "deploy"):
        folder.mkdir(parents=True, exist_ok=True)
    for name in ("log4j2.xml", "metrics.yaml"):
        shutil.copy(TEMPLATE / name, project.root / "deploy")
    if not (root / ".gitignore").exists():
        (root / ".gitignore").write_text(IGNORED)
    # last, since it makes the folder a project
    shutil.copy(TEMPLATE / "config.properties", root)
    return project


def new_spec(project: Project, name: str, origin: str, task: str | None) -> Path:
    """Write the spec of a model.

    Args:
        project: to write it into.
        name: of the model.
        origin: a folder, or a model id of the Hugging Face hub.
        task: None to go by the model's files.

    Returns:
        The spec's file.

    Raises:
        MarinaError: the spec is there already, the model cannot be read, or its files do not tell the task.
    """
    path = project.models / f"{name}.yaml"
    if path.exists():
        raise MarinaError(f"{path} exists already", "choose another name, or edit it")
    folder = Path(origin).expanduser().resolve()
    source = _folder_source(folder, project.root) if folder.is_dir() else _hub_source(origin)
    files = folder if folder.is_dir() else _hub_files(origin, source["revision"])
    config = _read_config(files, origin)
    task = task or _guess_task(files, config, origin)
    usual = LENGTHS.get(task, USUAL_LENGTHS)
    # some positions count from an offset of 2, as those of RoBERTa
    most = int(config.get("max_position_embeddings") or usual[-1] + 2) - 2
    lengths = sorted({min(length, most) for length in usual})
    text = SPEC.format(
        name=name,
        task=task,
        source="".join(f"  {key}: {json.dumps(value)}\n" for key, value in source.items()).rstrip("\n"),
        lengths=lengths,
    )
    try:
        make_spec(yaml.safe_load(text))
    except ValueError as error:
        raise MarinaError(f"{name}: {' '.join(str(error).split())}") from None
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
    return path


def _folder_source(folder: Path, root: Path) -> dict[str, str]:
    return {"path": str(folder.relative_to(root) if folder.is_relative_to(root) else folder)}


def _hub_source(model: str) -> dict[str, str]:
    from huggingface_hub import HfApi

    try:
        return {"hub": model, "revision": str(HfApi().model_info(model).sha)}
    except Exception as error:
        reason = " ".join(str(error).split())
        raise SourceError(
            f"{model} is no folder here, and the Hugging Face hub does not give it: {reason}",
            "without network, download the model elsewhere and name its folder",
        ) from None


def _hub_files(model: str, revision: str) -> Path:
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(model, revision=revision, allow_patterns=["*.json", "*/config.json"]))


def _read_config(folder: Path, origin: str) -> dict[str, Any]:
    path = encoder_folder(folder) / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        config = None
    if not isinstance(config, dict):
        raise SourceError(
            f"{origin} holds no model: {path.name} is missing or damaged", "name a folder of save_pretrained"
        )
    return config


def _guess_task(folder: Path, config: dict[str, Any], origin: str) -> str:
    """The task whose head the architecture names; embeddings for sentence-transformers and for bare encoders."""
    from marina.compiler.tasks import EXPORTERS

    named = [str(name) for name in config.get("architectures") or []]
    for task, exporter in EXPORTERS.items():
        if exporter.head and any(exporter.head in name for name in named):
            return task
    if (folder / MODULES_FILE).is_file() or any(name.endswith("Model") for name in named):
        return "sentence-embedding"
    raise SourceError(
        f"{origin} does not tell its task: config.json names the architectures {', '.join(named) or 'none'}",
        f"give --task: {', '.join(TASKS)}",
    )
