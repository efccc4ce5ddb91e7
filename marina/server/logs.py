"""The logs of the running TorchServe, or of the last one."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack

from marina.errors import ServerError
from marina.project import Project
from marina.server.state import logs_folder

POLL_S = 0.3
SERVER_LOG = "ts_log.log"
WORKERS_LOG = "model_log.log"


def log_lines(project: Project, name: str | None, follow: bool) -> Iterator[str]:
    """What the server and its workers have logged, without the ends of lines.

    Args:
        project: whose server.
        name: of a model, for what its workers logged; None for everything.
        follow: go on with what is logged from now on, until interrupted.

    Raises:
        ServerError: there is no log.
    """
    folder = logs_folder(project)
    paths = [folder / file for file in ([WORKERS_LOG] if name else [SERVER_LOG, WORKERS_LOG])]
    # TorchServe names the thread W-<port>-<model>_<version>-<stream>
    wanted = re.compile(rf" W-\d+-{re.escape(name)}_\S*-(?:stdout|stderr) ") if name else re.compile("")
    with ExitStack() as stack:
        files = [stack.enter_context(path.open(errors="replace")) for path in paths if path.exists()]
        if not files:
            raise ServerError(f"there is no log in {folder}; start a server with marina serve")
        while True:
            for file in files:
                yield from (line.rstrip("\n") for line in file if wanted.search(line))
            if not follow:
                return
            time.sleep(POLL_S)
