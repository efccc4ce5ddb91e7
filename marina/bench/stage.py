"""A TorchServe of the benchmark's own, which serves one model at a time, so that nothing else runs beside it.

It lies in a folder under build/bench with ports of its own; artifacts are shared with the project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from marina.archive import pack
from marina.bench.served import Protocol, Served, served_here
from marina.compiler import compile_model
from marina.console import Progress
from marina.files import exclusive
from marina.project import Project, project_beside
from marina.server import register, serve, stop, unregister
from marina.server.config import free_ports
from marina.server.state import Ports
from marina.spec import Spec

READY_TIMEOUT_S = 300


class Stage:
    """What is served now, and how to change it."""

    def __init__(self, own: Project, project: Project, progress: Progress) -> None:
        self.project = project
        self._own = own
        self._progress = progress
        self._running = False
        self._name: str | None = None

    def archive(self, spec: Spec) -> Path:
        """Compile a model in the user's own project, or find it there, and pack it here.

        Raises:
            SourceError, CompileError, SpecError: it cannot be compiled.
        """
        artifact = compile_model(spec, self._own, self._progress).folder
        return pack(spec, artifact, self.project.model_store).path

    def serve(self, name: str, protocol: Protocol = "rest") -> Served:
        """Serve this archive of the stage's model store and nothing else; ServerError if it does not start."""
        quiet: Callable[[str], None] = lambda _: None  # noqa: E731
        if not self._running:
            serve(self.project, [name], Ports(*free_ports(5)), READY_TIMEOUT_S, quiet)
            self._running = True
        else:
            if self._name is not None:
                unregister(self.project, [self._name])
                self._name = None
            register(self.project, [name], READY_TIMEOUT_S, quiet)
        self._name = name
        return served_here(self.project, name, protocol)


@contextmanager
def stage(own: Project, name: str, progress: Progress) -> Iterator[Stage]:
    """A stage in build/bench/NAME; its server is stopped at the end, however that comes. One at a time.

    Args:
        own: the user's project.
        name: of the folder.
        progress: told of what takes long.
    """
    project = project_beside(own, own.root / "build" / "bench" / name)
    # two that measure at the same time would measure each other
    with exclusive(project.root, lambda: progress("waiting for another benchmark to end", 0, 1)):
        stop(project)  # of a run that was killed
        try:
            yield Stage(own, project, progress)
        finally:
            stop(project)
