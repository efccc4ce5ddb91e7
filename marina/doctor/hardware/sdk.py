"""The first half of the hardware check: what shows without a device that an SDK's packages work."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from handlers.worker.engines.packages import programs_path
from marina.engines.base import Engine
from marina.findings import Finding, fails, ok

TIMEOUT_S = 600


def check_sdk(engine: Engine, target: str) -> list[Finding]:
    """Run the commands of `Engine.sdk_commands`; a finding has the last line of each one's output."""
    return [_run(name, command) for name, command in engine.sdk_commands(target).items()]


def _run(name: str, command: Sequence[str]) -> Finding:
    environment = {**os.environ, "PATH": programs_path()}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return fails(name, str(error), "install the packages of the SDK again")
    lines = (done.stdout if done.returncode == 0 else done.stderr or done.stdout).split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "no output")
    if done.returncode:
        return fails(name, f"status {done.returncode}: {last}", f"run it by hand: {' '.join(command[:4])} ...")
    return ok(name, f"{sum(map(bool, lines))} lines, the last one: {last}")
