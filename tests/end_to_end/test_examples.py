"""The resume matcher and the catalogue as a person runs them, with fewer rows."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests
import yaml

from marina.project import Project
from tests.conftest import ROOT, make_project
from tests.end_to_end.both_engines import SHAPES
from tests.end_to_end.conftest import run_marina
from tests.ports import free_ports
from tests.waiting import wait_until

pytestmark = pytest.mark.long
NAMES = ("resume-search", "resume-ner", "resume-rerank", "product-duplicates")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "160"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with the archives of the demonstration models, with few graphs in float32."""
    made = make_project(tmp_path_factory.mktemp("examples"))
    (made.root / "build").mkdir(exist_ok=True)
    (made.root / "build" / "training").symlink_to(ROOT / "build" / "training")
    for name in NAMES:
        fields = yaml.safe_load((ROOT / "models" / f"{name}.yaml").read_text())
        # a job with a resume is long, and its end says what was learned
        shapes = {"exact": ["8x256"]} if name == "resume-rerank" else SHAPES
        fields |= {"shapes": shapes, "precision": "f32"}
        fields.pop("examples", None)
        (made.models / f"{name}.yaml").write_text(yaml.safe_dump(fields))
    packed = run_marina(made, "archive", *NAMES)
    assert packed.returncode == 0, packed.stderr
    return made


def run(project: Project, module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", module, *arguments]
    ran = subprocess.run(
        command, cwd=project.root, env=ENVIRONMENT, capture_output=True, text=True, timeout=400, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=30).ok
    except requests.ConnectionError:
        return False


def test_a_catalogue_is_searched_for_duplicates(project: Project) -> None:
    printed = run(project, "examples.catalogue_duplicates", "--pairs", "800")
    assert "100 listings embedded" in printed
    assert "800 pairs judged" in printed
    assert "duplicates found: precision" in printed
    assert "duplicates are there: recall" in printed
    assert (project.root / "build/demo-duplicates/precision-recall.svg").exists()


def test_resumes_are_matched_and_shown_on_a_page(project: Project, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "examples.resume_match", "--resumes", "60", "--page", str(port)]
    log = tmp_path / "printed"
    with log.open("w") as file:
        process = subprocess.Popen(command, cwd=project.root, env=ENVIRONMENT, stdout=file, stderr=file)
    try:
        url, end = f"http://127.0.0.1:{port}", time.monotonic() + 200
        while "until you press Ctrl-C" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end
            time.sleep(0.2)
        wait_until(lambda: answers(f"{url}/jobs/2"), 60)
        page = requests.get(f"{url}/jobs/2", timeout=30).text
        assert page.count("<tr>") == 11
        assert 'class="has"' in page
        own = requests.post(f"{url}/match", data={"text": "<script>alert(1)</script> Python, SQL"}, timeout=30)
        assert own.status_code == 200
        assert "<script>" not in own.text
        assert requests.get(f"{url}/jobs/99", timeout=30).status_code == 200
        assert "There is no such job" in requests.get(f"{url}/jobs/99", timeout=30).text
        chromium = shutil.which("chromium")
        if chromium:
            options = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"{url}/jobs/2"]
            seen = subprocess.run([chromium, *options], capture_output=True, text=True, timeout=60, check=True)
            assert seen.stdout.count('<span class="bar"') == 10
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    printed = log.read_text()
    assert "60 resumes in PostgreSQL, with pgvector" in printed
    quality = [float(value) for value in re.findall(r"(?:meaning|demands|reranked)\s+│\s+(0\.\d+|1\.0+)", printed)]
    by_meaning, by_demands, reranked = quality
    assert by_meaning < min(by_demands, reranked)
    assert reranked > 0.9
    assert "a new job against 60 resumes that are known" in printed
