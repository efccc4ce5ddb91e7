"""Logs that are followed."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import pytest

from marina.server.run.logs import LogFile


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
