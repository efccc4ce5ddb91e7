"""The folder of a run, and what tells its processes from others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from marina.project import Project
from marina.server.hosts.torchserve.process import config_file
from marina.server.process import stop_process
from marina.server.run.folder import KEPT_RUNS, prepare_run, remove_unpacked, unpacked_archives
from marina.server.run.state import Ports, RunState, logs_folder, read_state
from marina.server.watch import rotate_console

RUN = RunState(0, "", Ports(), "")


def test_the_logs_of_the_last_runs_are_kept(project: Project) -> None:
    for number in range(KEPT_RUNS + 3):
        prepare_run(project, RUN)
        log = logs_folder(project) / "ts_log.log"
        log.write_text(str(number))
        os.utime(logs_folder(project), (1_000_000 + number, 1_000_000 + number))
    earlier = sorted((project.run / "earlier").iterdir())
    assert [(folder / "ts_log.log").read_text() for folder in earlier] == [
        str(number) for number in range(2, KEPT_RUNS + 2)
    ]
    assert earlier[0].name == "1970-01-12T13-46-42.000000"


def test_stopping_ends_its_own_processes_and_no_others(project: Project) -> None:
    state = prepare_run(project, RUN)
    config = str(config_file(project))
    config_file(project).touch()
    sleep = "import time; time.sleep(60)"
    socket = f"{state.temp}/.ts.sock.9000"
    worker = project.root / "model_service_worker.py"
    worker.write_text(sleep)
    reader = subprocess.Popen(["tail", "-f", config], stdout=subprocess.DEVNULL)
    editor = subprocess.Popen([sys.executable, "-c", sleep, config, socket])
    launcher = subprocess.Popen([sys.executable, "-c", sleep, "ts.model_server", "--ts-config", config])
    orphan = subprocess.Popen([sys.executable, str(worker), "--sock-name", socket])
    try:
        stop_process(project, state)
        assert [process.poll() is None for process in (reader, editor, launcher, orphan)] == [True, True, False, False]
    finally:
        for process in (reader, editor, launcher, orphan):
            process.kill()
            process.wait()
    assert read_state(project) is None
    assert not Path(state.temp).exists()


def test_what_is_unpacked_is_found_and_removed(tmp_path: Path) -> None:
    state = RunState(0, "", Ports(), str(tmp_path))
    assert unpacked_archives(state) == set()
    (tmp_path / "models" / "old").mkdir(parents=True)
    before = unpacked_archives(state)
    (tmp_path / "models" / "new" / "artifact").mkdir(parents=True)
    remove_unpacked(unpacked_archives(state) - before)
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["old"]


def test_the_console_log_is_rotated_while_it_is_written(project: Project) -> None:
    prepare_run(project, RUN)
    console = logs_folder(project) / "console.log"
    with console.open("a") as java:
        java.write("first\n" * 10)
        java.flush()
        rotate_console(project, max_bytes=100)
        assert console.stat().st_size == 60
        rotate_console(project, max_bytes=50)
        java.write("second\n")
    assert console.read_text() == "second\n"
    assert (logs_folder(project) / "console.log.1").read_text() == "first\n" * 10
