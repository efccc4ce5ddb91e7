"""Coverage of processes that end in every way."""

from __future__ import annotations

import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from coverage import Coverage
from coverage.exceptions import NoDataError

from tests.conftest import ROOT
from tests.coverage.measure import changed_sources, settings
from tests.coverage.start import SAVE_S
from tests.suites.tree import Tree
from tests.waiting import wait_until

MODULE = """\
import os
import sys


def first():
    return 1


def second(number):
    if number:
        return 2
    return 3


def never():
    return 4
"""
WAYS = {
    "ends": "",
    "is killed": "print('running', flush=True); import time; time.sleep(60)",
    "ends at once": "os._exit(0)",
    "becomes another program": "os.execv('/bin/true', ['true'])",
    "ends after a fork": "pid = os.fork(); m.second(0); os.waitpid(pid, 0) if pid else os._exit(0)",
}
# without the packages' own hooks, one of which may be measuring these tests
START = f"""
import os, sys
sys.path.append({sysconfig.get_path("purelib")!r})
import runpy
runpy.run_path({str(ROOT / "tests" / "coverage" / "start.py")!r})["start"](sys.argv[1])
import marina.m as m
m.first()
m.second(5)
"""


@pytest.mark.parametrize("way", WAYS)
def test_what_a_process_runs_is_saved_however_it_ends(tmp_path: Path, way: str) -> None:
    """In a copy of the module too, as archives have them."""
    tree = Tree(tmp_path, ["marina/m.py"])
    for folder in (tmp_path, tmp_path / "archive"):
        (folder / "marina").mkdir(parents=True)
        (folder / "marina" / "m.py").write_text(MODULE)
    written = tmp_path / "settings.ini"
    written.write_text(settings(tree, []))
    command = [sys.executable, "-S", "-c", START + WAYS[way], str(written)]
    with subprocess.Popen(command, cwd=tmp_path / "archive", stdout=subprocess.PIPE, text=True) as process:
        if way == "is killed":
            assert process.stdout is not None
            assert process.stdout.readline() == "running\n"
            wait_until(lambda: lines_missed(written, tree) == [12, 16], SAVE_S * 60, "what it ran was not saved")
            process.kill()
        assert process.wait(60) == (-signal.SIGKILL if way == "is killed" else 0)
    # the child takes the other branch
    assert lines_missed(written, tree) == ([16] if way == "ends after a fork" else [12, 16])


def lines_missed(written: Path, tree: Tree) -> list[int]:
    """The lines of the module that did not run, of all processes together."""
    measured = Coverage(config_file=str(written))
    folder = Path(str(measured.get_option("run:data_file"))).parent
    try:
        measured.combine([str(folder)], strict=True, keep=True)
    except NoDataError:
        return []
    return measured.analysis2(str(tree.root / "marina" / "m.py"))[3]


def test_a_change_is_measured_from_where_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=n", "-c", "user.email=e@example.com")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def commit(*names: str) -> None:
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{path.read_text() if path.exists() else ''}# a line\n")
        git("add", "-A")
        git("commit", "-m", "change")

    monkeypatch.delenv("MARINA_BASE", raising=False)
    git("init", "-b", "main")
    commit("marina/a.py", "marina/b.py", "handlers/c.py", "docs/d.md")
    tree = Tree(tmp_path, ["marina/a.py", "marina/b.py", "handlers/c.py", "docs/d.md"])
    assert changed_sources(tree) == []  # the first commit
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    commit("marina/a.py", "docs/d.md")
    commit("handlers/c.py")
    assert changed_sources(tree) == ["handlers/c.py", "marina/a.py"]
    monkeypatch.setenv("MARINA_BASE", "HEAD~1")
    assert changed_sources(tree) == ["handlers/c.py"]
    monkeypatch.delenv("MARINA_BASE")
    git("update-ref", "-d", "refs/remotes/origin/main")
    assert changed_sources(tree) == ["handlers/c.py"]
    # on the branch itself, the last commit is the change
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    commit("marina/b.py")
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    assert changed_sources(tree) == ["marina/b.py"]
