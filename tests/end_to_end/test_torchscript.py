"""TorchScript files through the real TorchServe, on the CPU and on the stand-in for Neuron."""

from __future__ import annotations

import csv
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from marina.project import Project
from tests import scripted
from tests.conftest import ROOT, make_project, scores, write_spec
from tests.end_to_end.conftest import Server, run_marina, serving
from tests.marina.compiler.sources.test_torchscript import FIVE, LABELS, WEIGHTED
from tests.standin import standin_environment

pytestmark = pytest.mark.long

MODELS = ("ava-intent", "torchscript-intent")
SHAPES = {"exact": ["1x24", "1x128", "16x24"]}


def test_the_example_answers_as_the_model_that_it_was_made_from(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    for name in MODELS:
        shutil.copytree(ROOT / "build" / "training" / name, project.root / "build" / "training" / name)
        fields = yaml.safe_load((ROOT / "models" / f"{name}.yaml").read_text())
        fields |= {"precision": "f32", "shapes": SHAPES, "examples": "test.csv"}
        (project.models / f"{name}.yaml").write_text(yaml.safe_dump(fields, sort_keys=False))
    shutil.copy(ROOT / "examples" / "ava_intent" / "test.csv", project.root)
    (project.models / "both.yaml").write_text(yaml.safe_dump({"name": "both", "bundle": list(MODELS)}))
    packed = run_marina(project, "archive", "both")
    assert packed.returncode == 0, packed.stderr
    with (project.root / "test.csv").open(newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    with serving(project, "both") as server:
        for start in range(0, len(texts), 8):
            body = {"models": list(MODELS), "inputs": texts[start : start + 8]}
            found = server.post("both", body).json()
            for one, other in zip(found["ava-intent"], found["torchscript-intent"], strict=True):
                assert scores(one) == pytest.approx(scores(other), abs=1e-4)


def test_modules_on_neuroncores(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    scripted.save_files(project.root / "files")
    for name, fields in (("five", FIVE), ("weighted", {**WEIGHTED, "shapes": {"exact": ["2x64"]}})):
        write_spec(project, name, **{**fields, "engine": "neuronx"})
    environment = standin_environment(tmp_path / "build-host", 0)
    del environment["NEURON_STANDIN"]  # no device where it is compiled
    packed = run_marina(project, "archive", **environment)
    assert packed.returncode == 0, packed.stderr
    with serving(project, "five", "weighted", **standin_environment(tmp_path / "host", 2)) as server:
        check_weighted(server, project)
        assert server.post("five", {"inputs": "change company address"}).status_code == 200


def check_weighted(server: Server, project: Project) -> None:
    def load(name: str) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return torch.jit.load(str(project.root / "files" / f"{name}.pt"))

    made = load("Letters")(["red shoes"], ["size 38"])
    with torch.no_grad():
        logits = load("Weighted")(made["input_ids"], made["weights"], made["language"], made["attention_mask"])
    answer = server.post("weighted", {"inputs": {"title": "red shoes", "body": "size 38"}}).json()
    assert scores(answer) == pytest.approx(dict(zip(LABELS, logits[0].softmax(-1).tolist(), strict=True)), abs=0.02)
