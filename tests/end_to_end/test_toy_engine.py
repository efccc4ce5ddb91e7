"""An engine from outside, which nothing in Marina knows of: it compiles, archives, serves and benches."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from marina.project import Project
from tests.end_to_end.conftest import run_marina, serving
from tests.toy_engine import FOLDER

AddTiny = Callable[..., Path]
INSTALLED = {"PYTHONPATH": str(FOLDER)}


def marina(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    result = run_marina(project, *arguments, **INSTALLED)
    assert result.returncode == 0, result.stderr
    return result


@pytest.mark.long
def test_it_compiles_and_its_runtime_travels_in_the_archive(project: Project, add_tiny: AddTiny) -> None:
    add_tiny("m", engine="toy", toy={"optimize": True})
    (document,) = json.loads(marina(project, "archive", "m", "--json").stdout)
    assert all(graph["parity"] < 1e-5 for graph in document["graphs"])
    artifact = json.loads((Path(document["artifact"]) / "artifact.json").read_text())
    assert [graph["optimized"] for graph in artifact["graphs"]] == [True, True]
    with zipfile.ZipFile(project.model_store / "m.mar") as archive:
        carried = archive.read("handlers/worker/engines/toy.py").decode()
    assert carried == (FOLDER / "toy_runtime.py").read_text()
    # another option is another artifact, a wrong one is refused by its field
    add_tiny("n", engine="toy")
    assert json.loads(marina(project, "compile", "n", "--json").stdout)[0]["artifact"] != document["artifact"]
    (project.models / "n.yaml").write_text((project.models / "n.yaml").read_text() + "toy: {optimise: true}\n")
    refused = run_marina(project, "compile", "n", **INSTALLED)
    assert refused.returncode == 1
    assert "n.yaml: toy.optimise: unknown field" in refused.stderr


def test_without_its_package_it_is_unknown(project: Project, add_tiny: AddTiny) -> None:
    add_tiny("m", engine="toy")
    refused = run_marina(project, "compile", "m")
    assert refused.returncode == 1
    assert "engine: must be 'openvino', 'torchscript', 'neuron' or 'neuronx' (given: 'toy')" in refused.stderr


@pytest.mark.long
def test_it_serves_from_an_archive_alone_and_is_measured(project: Project, add_tiny: AddTiny) -> None:
    add_tiny("m", engine="toy")
    marina(project, "archive")
    assert "CPU cores" in marina(project, "doctor", "--engine", "toy").stdout
    # the server's Python has no such package
    with serving(project) as server:
        answer = server.post("m", {"inputs": "ok"})
        assert answer.status_code == 200
        assert {entry["label"] for entry in answer.json()} == {"bad", "fair", "good"}
        measured = json.loads(
            server.marina("bench", "run", "m", "--seconds", "1", "--warm-up", "0", "--texts", "mix", "--json").stdout
        )
        (entry,) = measured["entries"]
        assert entry["configuration"]["engine"] == "toy"
        assert entry["rounds"][0]["requests"] > 0
    bare = json.loads(marina(project, "bench", "run", "m", "--bare", "--seconds", "1", "--json").stdout)
    assert bare["entries"][0]["rounds"][0]["throughput"] > 0
