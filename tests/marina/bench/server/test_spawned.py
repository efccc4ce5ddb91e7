"""A process that measures ends with the one that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from marina.bench.server.spawned import spawned_process

KILLED = """
import os, signal
from marina.bench.server.spawned import spawned_process

if __name__ == "__main__":
    with spawned_process() as process:
        print(process.submit(os.getpid).result(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_work_is_done_in_another_process() -> None:
    with spawned_process() as process:
        assert process.submit(os.getpid).result() != os.getpid()


def test_a_process_ends_with_a_parent_that_is_killed() -> None:
    # both hold the pipe, which ends with the last of them
    killed = subprocess.run([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert killed.stdout.strip().isdigit()
