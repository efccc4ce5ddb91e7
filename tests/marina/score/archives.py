"""Archives of tiny models for jobs in bulk."""

from __future__ import annotations

import random
from pathlib import Path

import sentence_transformers

from marina.archive.pack import pack
from marina.compiler import compile_model
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import WORDS, make_project, no_progress, save_tiny_model, write_spec
from tests.embedders import save_late_interaction

TASKS = {
    "search": "sentence-embedding",
    "sparse": "sparse-embedding",
    **({"late": "multi-vector-embedding"} if hasattr(sentence_transformers, "MultiVectorEncoder") else {}),
    "intent": "text-classification",
    "rerank": "reranking",
    "nli": "zero-shot-classification",
    "ner": "token-classification",
    "help": "question-answering",
}


def add_archive(project: Project, name: str, task: str) -> Path:
    """Pack the archive of a tiny model."""
    if task == "multi-vector-embedding":
        save_late_interaction(project.root / "weights" / name)
    else:
        save_tiny_model(project.root / "weights" / name, task, len(name))
    source = {"path": f"weights/{name}"}
    labels = {"candidate_labels": ["invoice", "mouse"], "hypothesis_template": "{}"}
    parameters = labels if task == "zero-shot-classification" else {}
    shapes = {"exact": ["1x16", "8x16", "8x64"]}
    path = write_spec(project, name, task=task, source=source, shapes=shapes, parameters=parameters)
    spec = read_spec(path, {})
    return pack(spec, compile_model(spec, project, no_progress).folder, project.model_store).path


def project_with(folder: Path, *names: str) -> Project:
    """A project with archives of some of the `TASKS`."""
    project = make_project(folder / "project")
    for name in names:
        add_archive(project, name, TASKS[name])
    return project


def texts_of(count: int, seed: int = 0) -> list[str]:
    """Texts of all lengths."""
    chosen = random.Random(seed)
    return [" ".join(chosen.choices(WORDS, k=chosen.randint(1, 70))) for _ in range(count)]
