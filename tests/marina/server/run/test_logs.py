"""Logs that are followed."""

from __future__ import annotations

from pathlib import Path

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
