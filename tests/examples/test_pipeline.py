"""The workflow that releases a model, judged without running it."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT

BIN = Path(sysconfig.get_path("scripts"))
WORKFLOW = ROOT / "examples" / "pipeline" / "release.yml"


def steps() -> list[str]:
    (job,) = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    return [step["run"] for step in job["steps"] if "run" in step]


def test_zizmor_finds_nothing() -> None:
    done = subprocess.run(
        [BIN / "zizmor", "--quiet", "--offline", WORKFLOW], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("script", steps(), ids=range(len(steps())))
def test_every_step_is_a_clean_script(script: str) -> None:
    command = [str(BIN / "shellcheck"), "--shell", "bash", "-"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_its_commands_and_their_options_exist() -> None:
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    commands = re.findall(r"bin/(marina (?:deploy )?\w+)(.*)", "\n".join(steps()))
    assert len(commands) == 3
    for command, rest in commands:
        section = page.partition(f"## {command}\n")[2].partition("\n## ")[0]
        assert section, command
        for option in re.findall(r"--\w+", rest):
            assert f"`{option}" in section, (command, option)
