"""Servers that are started again after a crash."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest

from handlers.worker.placement.choice import server_of
from marina.errors import ServerError
from marina.project import Project
from marina.server import lifecycle
from marina.server.hosts.table import HOSTS
from marina.server.lifecycle import restart
from marina.server.process import STARTED
from marina.server.run.folder import KEPT_RUNS, console_log, prepare_run
from marina.server.run.state import DIRECT, Ports, RunState, read_state, write_state


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes of a host that starts, and then does not get ready."""
    started: list[subprocess.Popen[bytes]] = []

    def start(project: Project, state: RunState, *_: object) -> RunState:
        process = subprocess.Popen(["sleep", "60"])
        started.append(process)
        console_log(project).write_text(f"attempt {len(started)}\n")
        state = replace(state, pid=process.pid, identity=server_of(process.pid))
        write_state(project, state)
        return state

    def wait_until_listening(*_: object) -> None:
        raise ServerError("the server did not open its ports in the time allowed")

    monkeypatch.setitem(HOSTS, DIRECT, HOSTS[DIRECT]._replace(start=start))
    monkeypatch.setattr(lifecycle, "wait_until_listening", wait_until_listening)
    yield started
    for process in started:
        process.kill()
        process.wait()


def crashed(project: Project) -> RunState:
    """The state of a server that has died."""
    state = prepare_run(project, RunState(0, "", Ports(), "", host=DIRECT))
    with subprocess.Popen(["true"]) as process:
        return replace(state, pid=process.pid, identity="gone")


def test_a_server_that_does_not_get_ready_again_leaves_no_process(
    project: Project, attempts: list[subprocess.Popen[bytes]]
) -> None:
    with pytest.raises(ServerError, match="did not open its ports"):
        restart(project, crashed(project), 1, print)
    assert attempts[0].poll() is not None
    state = read_state(project)  # for the next attempt
    assert state is not None
    assert state.process() is None


@pytest.mark.usefixtures("attempts")
@pytest.mark.parametrize("rotated", [False, True])
def test_attempts_to_start_again_take_no_logs_of_runs(project: Project, rotated: bool) -> None:
    state = crashed(project)
    console = console_log(project)
    console.write_text("its end" if rotated else f"{STARTED}\nits end")
    if rotated:
        console.with_name(f"{console.name}.1").write_text(STARTED)
    for _ in range(KEPT_RUNS + 1):
        with pytest.raises(ServerError, match="did not open its ports"):
            restart(project, state, 1, print)
        state = read_state(project) or state
    (kept,) = (project.run / "earlier").iterdir()
    assert (kept / console.name).read_text().endswith("its end")
    assert console.read_text() == f"attempt {KEPT_RUNS + 1}\n"
