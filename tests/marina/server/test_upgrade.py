"""Which archives a running server takes together."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from marina.errors import ServerError
from marina.project import Project
from marina.server import upgrade
from marina.server.run.state import Ports, RunState
from marina.server.upgrade import bring_all_up_to_date

STATE = RunState(1, "", Ports(), "")
ARCHIVES = [Path(f"{name}.mar") for name in ("served", "one", "two")]


@pytest.mark.parametrize("fails", [False, True])
def test_models_that_are_new_start_side_by_side(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fails: bool) -> None:
    calls: list[Any] = []
    served = {"served"}

    def register_new(_: Project, state: RunState, archives: list[Path], *__: Any) -> RunState:
        calls.append([path.stem for path in archives])
        if fails:
            raise ServerError("two cannot start")
        served.update(calls[-1])
        return state

    def bring_up_to_date(_: Project, state: RunState, archive: Path, *__: Any) -> RunState:
        calls.append(archive.stem)
        return state

    monkeypatch.setattr(upgrade, "management_of", lambda *_: SimpleNamespace(models=lambda: served))
    monkeypatch.setattr(upgrade, "register_new", register_new)
    monkeypatch.setattr(upgrade, "bring_up_to_date", bring_up_to_date)
    bring_all_up_to_date(Project(tmp_path), STATE, ARCHIVES, 1, print)
    assert calls == [["one", "two"], "served", "one", "two"]
    calls.clear()
    bring_all_up_to_date(Project(tmp_path), STATE, ARCHIVES[:2], 1, print)
    assert calls == ["served", "one"]
