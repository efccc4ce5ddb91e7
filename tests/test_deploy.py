"""The files of deploy/, checked by the programs that read them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

UNIT = ROOT / "deploy" / "systemd" / "marina.service"
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus is not installed")


def verify(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Check a unit as if the project were in this folder."""
    marina = folder / ".venv" / "bin" / "marina"
    marina.parent.mkdir(parents=True, exist_ok=True)
    marina.write_text("#!/bin/sh\n")
    marina.chmod(0o755)
    path = folder / "marina.service"
    path.write_text(text.replace("/srv/marina", str(folder)))
    return subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False, timeout=60)


@needs_systemd
def test_the_unit_of_systemd(tmp_path: Path) -> None:
    found = verify(tmp_path, UNIT.read_text())
    assert (found.returncode, found.stderr) == (0, "")
    for right, wrong in (("KillMode=mixed", "KillMode=gently"), ("bin/marina serve", "bin/other serve")):
        broken = verify(tmp_path, UNIT.read_text().replace(right, wrong))
        assert (broken.returncode, broken.stderr) != (0, "")


@needs_promtool
@pytest.mark.parametrize("name", ["alerts.yaml", "slo.yaml"])
def test_the_rules_of_prometheus(tmp_path: Path, name: str) -> None:
    rules = ROOT / "deploy" / "prometheus" / name
    assert subprocess.run(["promtool", "check", "rules", rules], capture_output=True, check=False).returncode == 0
    broken = tmp_path / "alerts.yaml"
    broken.write_text(rules.read_text().replace("> 0", ">> 0"))
    assert subprocess.run(["promtool", "check", "rules", broken], capture_output=True, check=False).returncode != 0
