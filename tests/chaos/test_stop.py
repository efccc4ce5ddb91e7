"""Servers that stop while clients use them: what they have accepted is answered."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from marina.project import Project
from marina.server.run.state import read_state
from tests.chaos.conftest import NAME, Record
from tests.chaos.load import Counts, plain_clients
from tests.end_to_end.conftest import MARINA, Server, port_options, run_marina, serving
from tests.ports import free_ports

CLIENTS = 24
GONE = {"ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError"}


def check_outcomes(counts: Counts) -> None:
    """Requests were answered, or refused while the server drained or when there was none.

    A connection that the kernel has accepted, and the server has not, is reset when the server ends; so is one whose
    next request comes as the server ends. Each client has one at a time.
    """
    assert set(counts.outcomes) <= {"200", "503", *GONE}
    assert sum(counts.outcomes.get(name, 0) for name in GONE - {"ConnectionRefusedError"}) <= CLIENTS


def test_a_stop_answers_what_it_was_given(packed: Project, record: Record) -> None:
    with serving(packed, NAME) as server, plain_clients(server, NAME, CLIENTS, pause_s=0.05) as counts:
        time.sleep(2)
        assert server.marina("stop").stdout == "stopped\n"
        time.sleep(0.3)
    record("stop", counts)
    # refused while it drains, or there is no server: nothing that was accepted is lost
    check_outcomes(counts)
    assert counts.answered > 0


def test_a_model_that_is_unregistered_answers_what_it_was_given(packed: Project, record: Record) -> None:
    with serving(packed, NAME) as server, plain_clients(server, NAME, CLIENTS, pause_s=0.05) as counts:
        time.sleep(2)
        assert server.marina("unregister", NAME).returncode == 0
        time.sleep(0.3)
    record("unregister", counts)
    # refused while the model drains, and when it is gone
    assert set(counts.outcomes) <= {"200", "503", "404"}
    assert counts.answered > 0


def test_a_server_in_the_foreground_drains_on_sigterm(packed: Project, record: Record) -> None:
    ports = free_ports(5)
    command = [*MARINA, "serve", NAME, "--foreground", *port_options(ports)]
    with subprocess.Popen(command, cwd=packed.root, stdout=subprocess.PIPE, text=True) as process:
        server = Server(packed, ports, {})
        try:
            while run_marina(packed, "health").returncode:
                assert process.poll() is None
                time.sleep(0.5)
            with plain_clients(server, NAME, CLIENTS, pause_s=0.05) as counts:
                time.sleep(1)
                process.terminate()
                assert process.wait(timeout=60) == 0
        finally:
            run_marina(packed, "stop", "--timeout", "0")
        assert process.stdout is not None
        printed = process.stdout.read()
    record("SIGTERM in the foreground", counts)
    check_outcomes(counts)
    assert "Model server started" in printed
    assert not (packed.run / "state.json").exists()


def test_a_server_in_the_foreground_that_dies_says_so(packed: Project) -> None:
    command = [*MARINA, "serve", NAME, "--foreground", *port_options(free_ports(5))]
    with subprocess.Popen(command, cwd=packed.root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            # printed once the models are served
            assert any("Model server started" in line for line in process.stdout)
            state = read_state(packed)
            assert state is not None
            os.kill(state.pid, signal.SIGKILL)
            assert process.wait(timeout=60) == 128 + signal.SIGKILL
        finally:
            run_marina(packed, "stop", "--timeout", "0")
