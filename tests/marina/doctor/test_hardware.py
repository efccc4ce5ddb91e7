"""The hardware check, against the stand-in: that it works, and that it tells when something does not."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from marina.cli import app
from marina.doctor.hardware import trials as hardware
from marina.doctor.hardware.report import checked_claims
from marina.doctor.hardware.sdk import check_sdk
from marina.doctor.hardware.trials import make_trials
from marina.engines import engine_of
from marina.project import Project
from marina.spec import make_spec
from tests.standin import PACKAGES, PROGRAMS, standin_environment

pytestmark = pytest.mark.long


@pytest.fixture
def check(
    project: Project, tiny_models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, dict[str, dict[str, object]], str]]:
    """Runs the check with arguments; gives the exit status, the trials by name, and the page."""

    def run(*arguments: str, device: bool = True, **knobs: str) -> tuple[int, dict[str, dict[str, object]], str]:
        for name, value in standin_environment(tmp_path / "host", 2, **knobs).items():
            monkeypatch.setenv(name, value)
        if not device:
            monkeypatch.delenv("NEURON_STANDIN")
        monkeypatch.syspath_prepend(str(PACKAGES))
        monkeypatch.chdir(project.root)
        monkeypatch.setattr(hardware, "MODEL", {"path": str(tiny_models["sentence-embedding"])})
        monkeypatch.setattr(hardware, "SHAPES", ["1x16", "4x64"])
        ended = CliRunner().invoke(app, ["doctor", "--hardware", "--seconds", "0.5", *arguments])
        folder = project.root / "build" / "hardware"
        document = json.loads((folder / "report.json").read_text())
        found = {trial["name"]: trial for trial in document["trials"]}
        return ended.exit_code, found, (folder / "report.md").read_text()

    return run


def test_every_trial_is_a_spec() -> None:
    for engine in ("neuron", "neuronx"):
        for cores in (1, 2, 4, 16):
            for trial in make_trials(engine_of(engine), cores, "inf2"):
                if trial.bundle:
                    assert set(trial.bundle) < {one.name for one in make_trials(engine_of(engine), cores, "inf2")}
                    continue
                least = {"name": trial.name, "task": "sentence-embedding", "source": {"path": "x"}, "engine": engine}
                make_spec({**least, **trial.fields})


def test_claims_name_checks_that_there_are() -> None:
    for name in ("neuron", "neuronx"):
        engine = engine_of(name)
        checks = {trial.name for trial in make_trials(engine, 2, "inf2")} | set(engine.sdk_commands("inf2"))
        assert set(engine.claims) == checks | {"compile", "device memory"}


def test_claims_without_a_check_are_not_tested() -> None:
    claims = checked_claims({"a": "A", "b": "B", "c": "C"}, {"a": True, "b": False})
    assert [(claim.text, claim.state) for claim in claims] == [
        ("A", "confirmed"),
        ("B", "refuted"),
        ("C", "not tested"),
    ]


@pytest.mark.parametrize("name", ["neuron", "neuronx"])
def test_packages_are_checked_without_a_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PACKAGES))
    monkeypatch.setenv("PATH", str(PROGRAMS), prepend=os.pathsep)
    found = {finding.check: finding for finding in check_sdk(engine_of(name), "inf2")}
    assert {finding.state for finding in found.values()} == {"ok"}
    assert found["list-operators"].found == "3 lines, the last one: Gather"
    monkeypatch.delenv("PYTHONPATH")
    found = {finding.check: finding for finding in check_sdk(engine_of(name), "inf2")}
    assert found["import"].state == "fails"
    assert "No module named" in found["import"].found


def test_without_a_device_a_graph_is_compiled(
    check: Callable[..., tuple[int, dict[str, dict[str, object]], str]],
) -> None:
    status, found, page = check(device=False)
    assert (status, list(found)) == (0, ["core-per-worker"])
    assert "graphs compile with neuron-cc | confirmed |" in page
    assert "each worker computes on its leased core | not tested |" in page


def test_what_works_is_measured(check: Callable[..., tuple[int, dict[str, dict[str, object]], str]]) -> None:
    status, found, page = check("--only", "pipeline")
    assert (status, list(found)) == (0, ["pipeline"])
    assert found["pipeline"]["passed"]
    assert found["pipeline"]["texts_per_second"] > 0  # type: ignore[operator]
    assert found["pipeline"]["served"]["ready"] == 1  # type: ignore[index]
    assert found["pipeline"]["graphs"]["1x16"] > 0  # type: ignore[index]
    assert "| pipeline | yes |" in page
    assert "| NeuronCores | ok | 2: 0,1 |" in page


def test_a_bundle_tells_what_it_costs_to_switch(
    check: Callable[..., tuple[int, dict[str, dict[str, object]], str]],
) -> None:
    status, found, page = check("--only", "bundle")
    assert status == 0, found["bundle"]["failure"]
    assert len(found["bundle"]["switch_ms"]) == 2  # type: ignore[arg-type]
    assert "Milliseconds that a call takes longer after another model's call" in page


def test_what_does_not_work_is_told(check: Callable[..., tuple[int, dict[str, dict[str, object]], str]]) -> None:
    status, found, page = check("--only", "exact", NEURON_STANDIN_MEMORY="100")
    assert status == 1
    assert not found["exact"]["passed"]
    assert "Allocation Failure" in page
