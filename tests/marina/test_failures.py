"""How the command line tells of expected failures."""

from __future__ import annotations

import errno
import json
import sys
from typing import Any

import pytest
import typer

from handlers.worker.errors import WorkerError
from marina.cli import run
from marina.errors import MarinaError

FAILURES: list[tuple[Exception, dict[str, Any]]] = [
    (MarinaError("it broke", "mend it"), {"error": "it broke; mend it", "cause": "it broke", "fix": "mend it"}),
    (WorkerError("it broke"), {"error": "it broke"}),
    (OSError(errno.ENOSPC, "No space left on device"), {"error": "No space left on device"}),
    (
        ModuleNotFoundError("No module named 'jinja2'", name="jinja2"),
        {"error": "this needs the package jinja2, which is not installed; install Marina with its extra [all]"},
    ),
]


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(("failure", "document"), FAILURES)
def test_an_expected_failure_is_one_line_and_with_json_a_document(
    failure: Exception,
    document: dict[str, Any],
    as_json: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    application = typer.Typer()

    @application.command()
    def fail(json: bool = False) -> None:  # noqa: ARG001
        raise failure

    monkeypatch.setattr(sys, "argv", ["marina", *(["--json"] if as_json else [])])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        run(application, "marina")
    shown = capsys.readouterr()
    assert ended.value.code == 1
    assert document["error"] in shown.err
    if as_json:
        assert json.loads(shown.out) == document
    else:
        assert shown.out == ""
