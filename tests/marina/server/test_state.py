import os
import subprocess

import psutil

from marina.project import Project
from marina.server.state import Ports, Registered, RunState, read_state, remove_state, running, write_state


def test_a_state_is_read_as_it_was_written(project: Project) -> None:
    project.run.mkdir(parents=True)
    assert read_state(project) is None
    state = RunState(
        os.getpid(), psutil.Process().create_time(), Ports(inference=1), "/nowhere", {"m": Registered("f", "1", 2.5)}
    )
    write_state(project, state)
    assert read_state(project) == state
    assert running(project) == state
    remove_state(project)
    assert read_state(project) is None


def test_a_server_that_ended_does_not_run(project: Project) -> None:
    project.run.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as process:
        started = psutil.Process(process.pid).create_time()
        state = RunState(process.pid, started, Ports(), "/nowhere")
        write_state(project, state)
        assert running(project) == state
        # a zombie until it is waited for
        process.kill()
        psutil.wait_procs([psutil.Process(process.pid)], timeout=1)
        assert running(project) is None
    assert running(project) is None


def test_a_later_process_with_the_same_pid_is_another(project: Project) -> None:
    project.run.mkdir(parents=True)
    write_state(project, RunState(os.getpid(), psutil.Process().create_time() - 100, Ports(), "/nowhere"))
    assert running(project) is None


def test_a_broken_state_file_is_none(project: Project) -> None:
    project.run.mkdir(parents=True)
    (project.run / "state.json").write_text('{"pid": 1}')
    assert read_state(project) is None
