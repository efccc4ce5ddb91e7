"""A separate server for benchmarks. It serves only the measured models, so that nothing else runs beside them.

It has its own folder under build/bench and its own ports; artifacts are shared with the project.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from marina.archive.bundle import pack_bundle
from marina.archive.pack import pack
from marina.bench.server.endpoint import Endpoint, Protocol, local_endpoint
from marina.compiler import compile_model
from marina.console import Progress
from marina.files import locked
from marina.project import Project, project_beside
from marina.server.lifecycle import serve, stop
from marina.server.models import register, status, unregister
from marina.server.run.ports import free_ports
from marina.server.run.state import DEFAULT_HOST, Ports
from marina.shapes.auto import with_shapes
from marina.spec import Spec
from marina.spec.bundle import Bundle
from marina.spec.sections import WorkerServing

FOLDER = "server"
READY_TIMEOUT_S = 300
# a benchmark measures how long work takes, and not which requests a server in production would refuse
UNLIMITED = {"deadline_ms": 600_000, "max_batch_ms": 600_000, "max_tokens": 10_000_000, "max_body_bytes": 6_000_000}


class BenchmarkServer:
    """The server, with methods to change the model that it serves.

    Attributes:
        project: project of its archives, state and logs.
    """

    def __init__(self, user_project: Project, project: Project, progress: Progress) -> None:
        self.project = project
        self._user_project = user_project
        self._progress = progress
        self._host: str | None = None  # of the server that runs
        self._names: list[str] = []

    def archive(self, spec: Spec) -> Path:
        """Compile a model in the user's project, or reuse it from there, and pack it here. Returns its artifact folder.

        Raises:
            SourceError, CompileError, SpecError: the model cannot be compiled.
        """
        artifact = self._compile(spec)
        pack(_unlimited(spec), artifact, self.project.model_store)
        return artifact

    def archive_bundle(self, bundle: Bundle, specs: Sequence[Spec]) -> None:
        """Pack a bundle of these models here; models without an artifact are compiled in the user's project first."""
        artifacts = [self._compile(spec) for spec in specs]
        members = [(_unlimited(spec), artifact) for spec, artifact in zip(specs, artifacts, strict=True)]
        limits = {name: value for name, value in UNLIMITED.items() if name in WorkerServing.model_fields}
        serving = bundle.serving.model_copy(update={**limits, "queue_size": bundle.serving.queue})
        pack_bundle(bundle.model_copy(update={"serving": serving}), members, self.project.model_store)

    def _compile(self, spec: Spec) -> Path:
        return compile_model(
            with_shapes(spec, self._user_project, self._progress), self._user_project, self._progress
        ).folder

    def serve(self, name: str, protocol: Protocol = "rest", host: str = DEFAULT_HOST) -> Endpoint:
        """Serve only this archive of the model store; ServerError if it does not start."""
        (endpoint,) = self.serve_together([name], protocol, host)
        return endpoint

    def serve_together(
        self, names: Sequence[str], protocol: Protocol = "rest", host: str = DEFAULT_HOST
    ) -> list[Endpoint]:
        """Serve only these archives of the model store, with one of `HOSTS`; ServerError if one does not start."""
        if self._host not in (None, host):
            stop(self.project)
            self._host = None
        if self._host is None:
            serve(self.project, list(names), Ports(*free_ports(5)), READY_TIMEOUT_S, lambda _: None, host=host)
            self._host = host
        else:
            previous_names, self._names = self._names, []
            if previous_names:
                unregister(self.project, previous_names)
            register(self.project, list(names), READY_TIMEOUT_S, lambda _: None)
        self._names = list(names)
        return [local_endpoint(self.project, name, protocol) for name in names]

    def unserve(self) -> None:
        """Serve nothing, so that another host has the machine for itself."""
        if self._names:
            unregister(self.project, self._names)
            self._names = []

    def resident_megabytes(self) -> float:
        """The resident memory of one worker of the served models."""
        return float(psutil.Process(self.worker_pids()[0]).memory_info().rss / 1e6)

    def shared_megabytes(self) -> float:
        """The memory of all workers of the served models; pages that several share are counted once."""
        return sum(float(psutil.Process(pid).memory_full_info().pss / 1e6) for pid in self.worker_pids())

    def worker_pids(self) -> list[int]:
        """The processes of the workers of the served models."""
        running = status(self.project)
        return [pid for model in (running[1] if running else ()) if model.name in self._names for pid in model.pids]


def _unlimited(spec: Spec) -> Spec:
    serving = spec.serving.model_copy(update={**UNLIMITED, "queue_size": spec.serving.queue})
    return spec.model_copy(update={"serving": serving})


@contextmanager
def benchmark_server(user_project: Project, progress: Progress) -> Iterator[BenchmarkServer]:
    """A server in build/bench/server, which is stopped at the end in any case. Only one can run at a time.

    Args:
        user_project: the user's project.
        progress: called for steps that take long.
    """
    project = project_beside(user_project, user_project.root / "build" / "bench" / FOLDER)
    # two benchmarks at the same time would influence each other
    with locked(
        project.root.with_suffix(".lock"), waiting=lambda: progress("waiting for another benchmark to end", 0, 1)
    ):
        stop(project)  # a killed run may have left it
        try:
            yield BenchmarkServer(user_project, project, progress)
        finally:
            stop(project)
