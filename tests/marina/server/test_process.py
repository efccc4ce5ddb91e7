"""Waiting for the process of a server."""

from __future__ import annotations

import time

from marina.project import Project
from marina.server.process import STARTED, wait_until_listening
from marina.server.run.folder import console_log
from marina.server.run.state import Ports, RunState
from marina.server.run.tokens import KEY_FILE


def test_a_console_log_need_not_be_utf8(project: Project) -> None:
    console = console_log(project)
    console.parent.mkdir(parents=True)
    console.write_bytes(b"warning: locale \xe4\n" + STARTED.encode())
    (project.run / KEY_FILE).touch()
    wait_until_listening(project, RunState(0, "", Ports(), ""), time.monotonic() + 1)
