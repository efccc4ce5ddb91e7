"""When a watch starts a server again, and when it leaves that to another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from marina.errors import ServerError
from marina.project import Project
from marina.server import watch
from marina.server.run.state import Ports, Registered, RunState, write_state


@pytest.fixture
def clock(project: Project, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which sleeping moves."""
    project.run.mkdir(parents=True)
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


def dead(identity: str) -> RunState:
    return RunState(0, identity, Ports(), "")


def test_it_tries_again_after_longer_and_longer_pauses(
    project: Project, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried_at = []

    def restart(*_: object) -> RunState:
        tried_at.append(clock[0])
        write_state(project, RunState(0, f"attempt {len(tried_at)}", Ports(), "", foreground=len(tried_at) == 8))
        raise ServerError("it does not start")

    monkeypatch.setattr(watch, "restart", restart)
    write_state(project, dead("first"))
    watch.watch(project)
    assert tried_at == [0, 2, 6, 14, 30, 62, 122, 182]


def test_it_ends_soon_when_a_command_has_started_another_server(
    project: Project, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def restart(*_: object) -> RunState:
        started.append(clock[0])
        raise ServerError("it does not start")

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        assert clock[0] < 100
        if clock[0] >= 20:
            write_state(project, dead("of marina serve"))

    monkeypatch.setattr(watch, "restart", restart)
    monkeypatch.setattr("time.sleep", sleep)
    write_state(project, dead("first"))
    watch.watch(project)
    assert started == [0, 2, 6, 14]
    assert clock[0] < 20 + 5 * watch.POLL_S


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("took_s", "allowed_s"), [((), 300), ((1.0, 2.0), 300), ((1.0, 400.0), 1200)])
def test_models_may_take_as_long_as_before(
    project: Project, monkeypatch: pytest.MonkeyPatch, took_s: tuple[float, ...], allowed_s: float
) -> None:
    allowed = []

    def restart(_: Project, state: RunState, timeout_s: float, *__: object) -> None:
        allowed.append(timeout_s)
        write_state(project, replace(state, foreground=True))

    monkeypatch.setattr(watch, "restart", restart)
    models = {f"m{number}": Registered("a", "1", ready_s) for number, ready_s in enumerate(took_s)}
    write_state(project, replace(dead("first"), models=models))
    watch.watch(project)
    assert allowed == [allowed_s]
