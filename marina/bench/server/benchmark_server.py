"""A TorchServe of the benchmark's own, which serves one model at a time, so that nothing else runs beside it.

It lies in a folder under build/bench with ports of its own; artifacts are shared with the project.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from marina.archive import pack
from marina.bench.server.endpoint import Endpoint, Protocol, local_endpoint
from marina.compiler import compile_model
from marina.console import Progress
from marina.files import exclusive
from marina.project import Project, project_beside
from marina.server import register, serve, status, stop, unregister
from marina.server.config import free_ports
from marina.server.state import Ports
from marina.spec import Spec

FOLDER = "server"
READY_TIMEOUT_S = 300


class BenchmarkServer:
    """The server, what it serves now, and how to change it.

    Attributes:
        project: where its archives, state and logs lie.
    """

    def __init__(self, own: Project, project: Project, progress: Progress) -> None:
        self.project = project
        self._own = own
        self._progress = progress
        self._running = False
        self._name: str | None = None

    def archive(self, spec: Spec) -> Path:
        """Compile a model in the user's own project, or find it there; pack it here. Gives the artifact's folder.

        Raises:
            SourceError, CompileError, SpecError: it cannot be compiled.
        """
        artifact = compile_model(spec, self._own, self._progress).folder
        pack(spec, artifact, self.project.model_store)
        return artifact

    def serve(self, name: str, protocol: Protocol = "rest") -> Endpoint:
        """Serve this archive of the model store and nothing else; ServerError if it does not start."""
        if not self._running:
            serve(self.project, [name], Ports(*free_ports(5)), READY_TIMEOUT_S, lambda _: None)
            self._running = True
        else:
            if self._name is not None:
                unregister(self.project, [self._name])
                self._name = None
            register(self.project, [name], READY_TIMEOUT_S, lambda _: None)
        self._name = name
        return local_endpoint(self.project, name, protocol)

    def resident_megabytes(self) -> float:
        """Resident memory of one worker of the model that is served."""
        running = status(self.project)
        (pid, *_) = [pid for model in (running[1] if running else ()) if model.name == self._name for pid in model.pids]
        return float(psutil.Process(pid).memory_info().rss / 1e6)


@contextmanager
def benchmark_server(own: Project, progress: Progress) -> Iterator[BenchmarkServer]:
    """A server in build/bench/server; it is stopped at the end, however that comes. One at a time.

    Args:
        own: the user's project.
        progress: is given what takes long.
    """
    project = project_beside(own, own.root / "build" / "bench" / FOLDER)
    # two that measure at the same time would measure each other
    with exclusive(project.root, lambda: progress("waiting for another benchmark to end", 0, 1)):
        stop(project)  # of a run that was killed
        try:
            yield BenchmarkServer(own, project, progress)
        finally:
            stop(project)
