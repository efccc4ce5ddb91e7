import os
import subprocess

import psutil
import pytest

from handlers.worker.placement.choice import server_of
from marina.project import Project
from marina.server.run.state import Ports, Registered, RunState, read_state, remove_state, running, write_state


def test_a_state_is_read_as_it_was_written(project: Project) -> None:
    project.run.mkdir(parents=True)
    assert read_state(project) is None
    state = RunState(
        os.getpid(), server_of(os.getpid()), Ports(inference=1), "/nowhere", {"m": Registered("f", "1", 2.5)}
    )
    write_state(project, state)
    assert read_state(project) == state
    assert running(project) == state
    remove_state(project)
    assert read_state(project) is None


def test_a_server_that_ended_does_not_run(project: Project) -> None:
    project.run.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as process:
        state = RunState(process.pid, server_of(process.pid), Ports(), "/nowhere")
        write_state(project, state)
        assert running(project) == state
        # a zombie until it is waited for
        process.kill()
        psutil.wait_procs([psutil.Process(process.pid)], timeout=1)
        assert running(project) is None
    assert running(project) is None


def test_a_later_process_with_the_same_pid_is_another(project: Project) -> None:
    project.run.mkdir(parents=True)
    write_state(project, RunState(os.getpid(), server_of(os.getppid()), Ports(), "/nowhere"))
    assert running(project) is None


def test_a_clock_that_is_set_ends_no_server(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.run.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as process:
        write_state(project, RunState(process.pid, server_of(process.pid), Ports(), "/nowhere"))
        # Linux counts a start from boot, and moves the time of boot with the clock
        monkeypatch.setattr(psutil.Process, "create_time", lambda _: 1.0)
        assert running(project) is not None
        process.kill()


def test_a_broken_state_file_is_none(project: Project) -> None:
    project.run.mkdir(parents=True)
    (project.run / "state.json").write_text('{"pid": 1}')
    assert read_state(project) is None
