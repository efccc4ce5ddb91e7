"""A tiny model is calibrated, planned for, and predictions of it are verified."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from handlers.worker.placement.discovery import cpu_cores
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import ROOT
from tests.end_to_end.conftest import run_marina

pytestmark = pytest.mark.long


@pytest.mark.parametrize("host", ["torchserve", "direct"])
def test_a_model_is_calibrated_planned_for_and_verified(
    project: Project, add_tiny: Callable[..., Path], host: str
) -> None:
    path = add_tiny("m")
    calibrated = run_marina(project, "calibrate", "m", "--json", "--host", host)
    assert calibrated.returncode == 0, calibrated.stderr
    assert json.loads(calibrated.stdout)["m"]["error"] < 1
    asked = (
        "plan",
        "m",
        "--rate",
        "20",
        "--host",
        host,
        "--price",
        "0.1",
        "--on",
        "here",
        "--on",
        "inf2.xlarge",
        "--on",
        "inf1.xlarge",
    )
    planned = run_marina(project, *asked, "--promise", "p99 <= 200 ms", "--json", "--write")
    assert planned.returncode == 0, planned.stderr
    document = json.loads(planned.stdout)
    assert document["choice"]["on"] == "here"
    assert document["choice"]["promised"] < 200
    assert (document["choice"]["batch_delay_ms"] == 0) == (host == "direct")
    assert read_spec(path).serving.batch_size == document["choice"]["batch_size"]
    bases = {one["basis"] for one in document["simulated"] if one["on"] == "here"}
    assert bases <= {"measured here", "shapes that are not compiled yet"}
    assert (project.root / "build" / "plan" / "plan.svg").read_text().startswith("<?xml")
    none = run_marina(project, *asked, "--promise", "p99 <= 0.1 ms")
    assert none.returncode == 1
    assert none.stdout.startswith("None keeps p99 <= 0.1 ms")
    elsewhere = ("--on", "inf9.xlarge", "--promise", "p99 <= 200 ms", "--host", host)
    unknown = run_marina(project, "plan", "m", "--rate", "20", *elsewhere)
    assert unknown.stderr.startswith("error: the instance type inf9.xlarge is not known")
    verified = subprocess.run(
        [sys.executable, "-m", "benchmarks.verify", "m", "--cases", "2", "--sweep-rounds", "0", "--host", host],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert verified.returncode == 0, verified.stderr
    cases = json.loads((project.root / "build" / "plan" / "verify" / "verify.json").read_text())["cases"]
    assert [len(case["measured"]) for case in cases] == [2, 2]
    assert sum(cases[0]["case"]["groups"]) <= len(cpu_cores())
