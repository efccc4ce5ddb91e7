"""Changes how many workers a model of a running server has."""

from __future__ import annotations

import time
from contextlib import suppress

from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.placement.limits import free_memory
from marina.errors import ServerError
from marina.project import Project
from marina.server.archives import kept_copies
from marina.server.management.api import ModelStatus
from marina.server.management.readiness import log_size, wait_until_ready
from marina.server.models import require_running
from marina.server.process import own_memory
from marina.server.room import check_groups, need_of
from marina.server.run.lock import one_at_a_time
from marina.server.run.logs import WORKERS_LOG
from marina.server.run.state import logs_folder
from marina.server.upgrade import Report, management_of

FORCE_HINT = "--force starts them all the same"


def scale(project: Project, name: str, workers: int, timeout_s: float, report: Report, force: bool = False) -> None:
    """Set the number of workers of a model on the running server, and wait until they are READY.

    Args:
        project: project of the server.
        name: the model.
        workers: the new number of workers.
        timeout_s: seconds that workers may take to become READY.
        report: called with a description of the current step.
        force: start more than this machine's cores and memory carry.

    Raises:
        ServerError: no server is running, the model is not registered, there are fewer core groups, the machine does
            not carry so many workers, or one failed. In the last case, the previous number of workers is restored.
    """
    with one_at_a_time(project):
        state = require_running(project)
        management = management_of(project, state)
        previous = management.status(name)
        archive = kept_copies(project, name).current
        check_groups(archive, workers, state)
        if not force:
            need = need_of(archive)
            if need and not need.cores.exclusive and workers > previous.workers:
                check_cores(name, workers, max(len(cpu_cores()), len(need.groups)))
            check_memory(previous, workers)
        log = logs_folder(project) / WORKERS_LOG
        log_start, deadline = log_size(log), time.monotonic() + timeout_s
        try:
            management.scale(name, workers)
            report(f"waiting until {name} has {workers} worker{'s' * (workers > 1)} READY")
            wait_until_ready(
                management, {name: None}, log, log_start, deadline, alive=lambda: state.process() is not None
            )
        except BaseException:
            with suppress(ServerError):
                management.scale(name, previous.workers)
            raise


def check_cores(name: str, workers: int, cores: int) -> None:
    """ServerError if there are more workers than cores to compute on."""
    if workers > cores:
        raise ServerError(
            f"{name} would have {workers} workers for {cores} core{'s' * (cores > 1)}, where more than one for each "
            "only wait for each other",
            FORCE_HINT,
        )


def check_memory(status: ModelStatus, workers: int) -> None:
    """ServerError if further workers, as large as the largest of those that are READY, do not fit in free memory."""
    worker_bytes = max(map(own_memory, status.pids), default=0)
    needed_bytes, free_bytes = worker_bytes * (workers - status.workers), free_memory()
    if needed_bytes > free_bytes:
        raise ServerError(
            f"{workers - status.workers} more workers of {status.name} need about {needed_bytes / 1e9:.1f} GB "
            f"of memory, and {free_bytes / 1e9:.1f} GB are free",
            FORCE_HINT,
        )
