"""Which archives a running server takes together, and what is served when it cannot take one."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from handlers.worker.archive.artifact import MANIFEST
from handlers.worker.placement.choice import server_of
from marina.archive.read import fingerprint_of, version_of
from marina.errors import ServerError
from marina.project import Project
from marina.server import models, upgrade
from marina.server.archives import DRAINING, keep_copy, kept_copies
from marina.server.management.api import ModelStatus
from marina.server.run.state import Ports, Registered, RunState, write_state
from marina.server.upgrade import bring_all_up_to_date, bring_up_to_date

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


class Managed:
    """A server with one model `a`, whose workers are READY at once; `draining` has none."""

    def __init__(self, project: Project, version: str) -> None:
        self._project = project
        self.default = version
        self.registered = [version]

    def models(self) -> list[str]:
        return ["a"]

    def versions(self, _: str) -> list[str]:
        return list(self.registered)

    def status(self, name: str, version: str | None = None) -> ModelStatus:
        if not self.registered:
            raise ServerError(f"Model not found: {name}")
        workers = int((version or self.default) != DRAINING)
        return ModelStatus(name, version or self.default, workers, workers, 1, 0, [])

    def register(self, file: str, _: str) -> None:
        self.registered.append(version_of(self._project.model_store / file))

    def set_default(self, _: str, version: str) -> None:
        self.default = version

    def unregister(self, _: str, version: str) -> None:
        self.registered.remove(version)


def pack(project: Project, version: str, content: str) -> Path:
    """Write an archive of `a`, without a worker, whose fingerprint is its content; returns its path in the store."""
    path = project.model_store / "a.mar"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MANIFEST, json.dumps({"model": {"modelName": "a", "modelVersion": version}}))
        archive.comment = content.encode()
    return path


@pytest.fixture
def serve_second(project: Project, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets a server have `a` from an archive "old", and then from "new"; gives its management and state."""

    def serve(old_version: str = "1") -> tuple[Managed, RunState]:
        for version, content in ((old_version, "old"), ("2", "new")):
            keep_copy(project, pack(project, version, content))
        managed = Managed(project, "2")
        monkeypatch.setattr(upgrade, "management_of", lambda *_: managed)
        monkeypatch.setattr(models, "management_of", lambda *_: managed)
        monkeypatch.setattr(upgrade, "wait_until_ready", lambda *_: None)
        served = {"a": Registered("new", "2", 1.0)}
        state = RunState(os.getpid(), server_of(os.getpid()), Ports(), str(project.run), served)
        project.run.mkdir(parents=True, exist_ok=True)
        write_state(project, state)
        return managed, state

    return serve


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes while a version answers its last requests."""

    def wait_until_idle(*_: Any) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(upgrade, "wait_until_idle", wait_until_idle)


@pytest.mark.usefixtures("interrupt")
def test_a_rollback_that_is_interrupted_when_the_old_archive_is_served_has_put_it_back(
    project: Project, serve_second: Any
) -> None:
    managed, _ = serve_second()
    with pytest.raises(KeyboardInterrupt):
        models.rollback(project, "a", 1, print)
    assert managed.default == "1"
    assert fingerprint_of(kept_copies(project, "a").current) == fingerprint_of(project.model_store / "a.mar") == "old"


@pytest.mark.usefixtures("interrupt")
def test_an_outage_that_is_interrupted_before_the_old_version_goes_is_over(project: Project, serve_second: Any) -> None:
    managed, state = serve_second()
    with pytest.raises(KeyboardInterrupt):
        bring_up_to_date(project, state, pack(project, "3", "newest"), 1, print, with_outage=True)
    assert (managed.default, managed.registered) == ("2", ["2", DRAINING])


def test_a_rollback_that_fails_leaves_the_model_store(project: Project, serve_second: Any, monkeypatch: Any) -> None:
    managed, _ = serve_second()
    monkeypatch.setattr(upgrade, "_has_room", lambda *_: False)
    with pytest.raises(ServerError):
        models.rollback(project, "a", 1, print)
    assert (managed.default, fingerprint_of(project.model_store / "a.mar")) == ("2", "new")


def test_who_cannot_roll_back_is_told_how_to_roll_back(
    project: Project, serve_second: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrade, "_has_room", lambda *_: False)
    for old_version in ("1", "2"):
        serve_second(old_version)
        with pytest.raises(ServerError) as error:
            models.rollback(project, "a", 1, print)
        assert error.value.fix.startswith("marina rollback a --replace stops the old version first")
    _, state = serve_second()
    with pytest.raises(ServerError, match="change it and pack again; marina upgrade a --replace"):
        bring_up_to_date(project, state, pack(project, "2", "newest"), 1, print)


def test_a_model_that_is_named_twice_is_unregistered_once(project: Project, serve_second: Any) -> None:
    managed, _ = serve_second()
    models.unregister(project, ["a", "a"])
    assert managed.registered == []
