"""Servers that stop while clients use them: what they have accepted is answered."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from marina.project import Project
from marina.server.state import read_state
from marina.server.torchserve.config import free_ports
from tests.chaos.conftest import NAME, Record
from tests.chaos.load import plain_clients
from tests.end_to_end.conftest import MARINA, Server, port_options, run_marina, serving


def test_a_stop_answers_what_it_was_given(packed: Project, record: Record) -> None:
    with serving(packed, NAME) as server, plain_clients(server, NAME, 24, pause_s=0.05) as counts:
        time.sleep(2)
        assert server.marina("stop").stdout == "stopped\n"
        time.sleep(0.3)
    record("stop", counts)
    # refused while it drains, or there is no server: nothing that was accepted is lost
    assert set(counts.outcomes) <= {"200", "503", "ConnectionRefusedError"}
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
            with plain_clients(server, NAME, 24, pause_s=0.05) as counts:
                time.sleep(1)
                process.terminate()
                assert process.wait(timeout=60) == 0
        finally:
            run_marina(packed, "stop", "--timeout", "0")
        assert process.stdout is not None
        printed = process.stdout.read()
    record("SIGTERM in the foreground", counts)
    assert set(counts.outcomes) <= {"200", "503", "ConnectionRefusedError"}
    assert "Model server started" in printed
    assert not (packed.run / "state.json").exists()


def test_a_server_in_the_foreground_that_dies_says_so(packed: Project) -> None:

    command = [*MARINA, "serve", NAME, "--foreground", *port_options(free_ports(5))]
    with subprocess.Popen(command, cwd=packed.root, stdout=subprocess.DEVNULL) as process:
        try:
            while run_marina(packed, "health").returncode:
                assert process.poll() is None
                time.sleep(0.5)
            state = read_state(packed)
            assert state is not None
            os.kill(state.pid, signal.SIGKILL)
            assert process.wait(timeout=60) == 128 + signal.SIGKILL
        finally:
            run_marina(packed, "stop", "--timeout", "0")
