"""What a policy scanner says of the files that are written: no more than docs/deploy/index.md explains, and no less."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from marina.archive.describe import Archive
from marina.deploy.ecs import deploy_ecs
from marina.deploy.image import deploy_image
from marina.deploy.kubernetes import deploy_kubernetes
from marina.deploy.ray import deploy_ray
from marina.deploy.sagemaker import deploy_sagemaker
from marina.project import Project
from tests.conftest import ROOT
from tests.marina.deploy.test_kubernetes import on

CHECKOV = ROOT / "build" / "checkov" / "bin" / "checkov"
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not CHECKOV.exists(), reason="make build/checkov/installed has not run"),
]
IMAGE = f"registry.example/models@sha256:{'1f' * 32}"
# a file of it changes a part of another, which is judged, or is a template
PARTS = ("machines.yaml", ".j2")


@pytest.fixture(scope="module")
def folders(archives: list[Archive], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every target writes: for one model and for two, one of them with an odd name, and for each stack."""
    root = tmp_path_factory.mktemp("written")
    project = Project(ROOT)
    sets = {"one": archives[:1], "two": archives}
    sets |= {engine: [on(archive, engine, "1,1") for archive in archives] for engine in ("neuron", "neuronx")}
    for name, chosen in sets.items():
        deploy_kubernetes(chosen, root / name / "kubernetes", IMAGE, 2)
        deploy_ecs(chosen, root / name / "ecs", 2)
        if name != "neuron":
            deploy_ray(chosen, root / name / "ray", 1, 4)
    deploy_kubernetes(archives, root / "loading", IMAGE, 2, bucket="s3://models/nlp")
    for host in ("direct", "torchserve"):
        deploy_image(project, archives, root / host, mounted=False, host=host)
    # short names: the scanner takes 40 letters of a path for a secret
    for name, aws_image in (("own", False), ("aws", True)):
        deploy_sagemaker(project, archives, root / name, False, None, aws_image=aws_image)
    for path in root.rglob("*"):
        if path.name.endswith(PARTS):
            path.unlink()
    return root


def failures(folder: Path) -> dict[str, set[str]]:
    """The files in which each rule is broken."""
    command = [CHECKOV, "--directory", folder, "--skip-download", "--output", "json"]
    frameworks = ["--framework", "kubernetes", "cloudformation", "dockerfile"]
    done = subprocess.run([*map(str, command), *frameworks], capture_output=True, text=True, check=False, cwd=folder)
    reports = json.loads(done.stdout)
    found: dict[str, set[str]] = {}
    for report in reports:
        assert report["summary"]["passed"] > 20, report["summary"]
        assert report["summary"]["parsing_errors"] == 0
        for failed in report["results"]["failed_checks"]:
            found.setdefault(failed["check_id"], set()).add(failed["file_path"])
    assert {report["check_type"] for report in reports} == {"kubernetes", "cloudformation", "dockerfile"}
    return found


def test_every_rule_that_is_broken_is_explained(folders: Path) -> None:
    page = (ROOT / "docs" / "deploy" / "index.md").read_text()
    explained = set(re.findall(r"^\| `(CKV\w+)` \|", page, re.MULTILINE))
    found = failures(folders)
    assert set(found) == explained, {rule: files for rule, files in found.items() if rule not in explained}


def test_the_scanner_finds_what_is_wrong(folders: Path) -> None:
    path = folders / "one" / "kubernetes" / "base" / "deployment.yaml"
    text = path.read_text()
    try:
        path.write_text(text.replace("readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false"))
        assert "CKV_K8S_22" in failures(folders)
    finally:
        path.write_text(text)
