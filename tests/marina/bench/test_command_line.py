"""What each subcommand takes and refuses, without a server."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from marina.bench.server import recording
from marina.bench.server.recording import Arrival
from marina.cli import app
from marina.cli import bench as commands
from marina.server import models


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "NAME"),
        (["sweep"], "FILE"),
        (["table"], "TABLE"),
        (["report"], "FILE"),
        (["run", "m", "--arrivals", "never"], "--arrivals"),
        (["run", "m", "--connections", "0"], "--connections"),
        (["sweep", "bench.yaml", "--rate", "5"], "--rate"),
        (["sweep", "bench.yaml", "--engine", "neuron"], "--engine"),
        (["table", "ava", "--rate", "5"], "--rate"),
        (["table", "ava", "--grpc"], "--grpc"),
        (["table", "ava", "m", "more"], "more"),
        (["report", "result.json", "--price", "1"], "--price"),
        (["m"], "No such command"),
    ],
)
def test_what_has_no_meaning_is_refused(arguments: list[str], message: str) -> None:
    ran = CliRunner().invoke(app, ["bench", *arguments], env={"NO_COLOR": "1", "COLUMNS": "200", "TERM": "dumb"})
    assert ran.exit_code == 2
    assert message in ran.output


def test_help_names_every_subcommand() -> None:
    ran = CliRunner().invoke(app, ["bench", "--help"])
    assert ran.exit_code == 0
    for name in ("run", "sweep", "table", "record", "report"):
        assert f" {name} " in ran.output


def test_a_recording_asks_for_its_folder_first() -> None:
    ran = CliRunner().invoke(app, ["bench", "record", "m", "--out", "none/day.csv"])
    assert str(ran.exception) == "none/day.csv cannot be written: there is no folder none; mkdir -p none"


def test_a_recording_names_the_host_for_its_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = SimpleNamespace(ports=SimpleNamespace(metrics=8082), host="direct")
    monkeypatch.setattr(commands, "find_project", lambda: None)
    monkeypatch.setattr(models, "require_running", lambda _: server)
    monkeypatch.setattr(recording, "record_metrics", lambda *_: [Arrival(0, 8), Arrival(1, 8)])
    ran = CliRunner().invoke(app, ["bench", "record", "m", "--out", str(tmp_path / "day.csv")])
    assert "next: marina plan m --host direct --replay" in ran.output
