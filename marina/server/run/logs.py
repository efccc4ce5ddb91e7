"""The logs of the running server, or of the last one if none is running."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from marina.errors import ServerError
from marina.project import Project
from marina.server.run.state import logs_folder

POLL_S = 0.3
SERVER_LOG = "ts_log.log"
WORKERS_LOG = "model_log.log"
CONSOLE_LOG = "console.log"
# a host logs this when a worker has exited; the worker's exception is on an earlier line
DIED_MESSAGE = "Backend worker process died."


def log_lines(project: Project, name: str | None, following: Callable[[], bool]) -> Iterator[str]:
    """The lines that the server and its workers have logged, without line endings.

    Args:
        project: project of the server.
        name: name of a model, to get the lines of its workers only; None for all lines.
        following: returns whether to wait for more lines; called before every look at the files.

    Raises:
        ServerError: there is no log, or no model of this name has logged anything and none is in the store.
    """
    folder = logs_folder(project)
    names = [WORKERS_LOG] if name else [CONSOLE_LOG, SERVER_LOG, WORKERS_LOG]
    if not any((folder / file).exists() for file in names):
        raise ServerError(f"there is no log in {folder}", "start a server with marina serve")
    # TorchServe names worker threads W-<port>-<model>_<version>-<stream>
    longer_names = [path.stem for path in project.archives() if path.stem.startswith(f"{name}_")]
    not_theirs = "".join(f"(?!{re.escape(longer_name)}_)" for longer_name in longer_names)
    pattern = rf" W-\d+-{not_theirs}{re.escape(name)}_\S*-(?:stdout|stderr) " if name else ""
    model_found = bool(not name or (project.model_store / f"{name}.mar").exists())
    logs = [LogFile(folder / file) for file in names]
    while True:
        follow = following()
        for log in logs:
            for line in log.read():
                if re.search(pattern, line):
                    model_found = True
                    yield line
        if not model_found:
            raise ServerError(f"no model {name} has logged anything", "marina status lists the models")
        if not follow:
            return
        time.sleep(POLL_S)


class LogFile:
    """Reads a log that grows, and goes on with its successor when it is rotated."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = self._position = 0

    def read(self) -> Iterator[str]:
        """The complete lines that were added since the last call, without line endings."""
        try:
            with self._path.open("rb") as file:
                file_stat = os.fstat(file.fileno())  # of the file that is open: the name may be of a new one
                if file_stat.st_ino != self._inode or file_stat.st_size < self._position:
                    self._inode, self._position = file_stat.st_ino, 0
                file.seek(self._position)
                for line in file:
                    if not line.endswith(b"\n"):
                        return
                    self._position += len(line)
                    yield line.rstrip(b"\n").decode(errors="replace")
        except FileNotFoundError:
            return
