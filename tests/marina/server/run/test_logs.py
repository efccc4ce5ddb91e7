"""Logs that are followed."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import pytest

from marina.project import Project
from marina.server.run.logs import WORKERS_LOG, LogFile, log_lines
from marina.server.run.state import logs_folder


def test_a_log_is_followed_through_its_rotation(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = LogFile(path)
    assert list(log.read()) == []
    path.write_text("one\ntwo\nhal")
    assert list(log.read()) == ["one", "two"]
    with path.open("a") as file:
        file.write("f\n")
    assert list(log.read()) == ["half"]
    path.rename(tmp_path / "log.1")
    path.write_text("new\n")
    assert list(log.read()) == ["new"]
    path.write_text("")
    path.write_text("n\n")
    assert list(log.read()) == ["n"]


def test_a_rotation_just_after_the_log_was_opened_repeats_no_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    path.write_text("one\n")
    log = LogFile(path)
    assert list(log.read()) == ["one"]
    successor, plain_open = tmp_path / "successor", Path.open
    successor.write_text("two\n")

    def open_and_rotate(opened: Path, mode: str) -> IO[Any]:
        file = plain_open(opened, mode)
        path.rename(tmp_path / "log.1")
        successor.rename(path)
        return file

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", open_and_rotate)
        assert list(log.read()) == []
    assert list(log.read()) == ["two"]


def test_the_lines_of_a_model_are_not_those_of_one_with_a_longer_name(project: Project) -> None:
    logs_folder(project).mkdir(parents=True)
    lines = [f"W-9000-{thread}-stdout direct - x" for thread in ("search_1.0", "search_v2_1.0", "search_v3", "other_1")]
    (logs_folder(project) / WORKERS_LOG).write_text("".join(f"[INFO ] {line}\n" for line in lines))
    for name in ("search", "search_v2", "other"):
        (project.model_store / f"{name}.mar").touch()
    shown = {
        name: [line[15:-18] for line in log_lines(project, name, lambda: False)] for name in ("search", "search_v2")
    }
    assert shown == {"search": ["search_1.0", "search_v3"], "search_v2": ["search_v2_1.0"]}
    assert len(list(log_lines(project, None, lambda: False))) == 4
