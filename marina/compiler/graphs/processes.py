"""Compiles each graph in its own process: `python -m marina.compiler.graphs.processes REQUEST`.

This is for engines whose compilers take minutes and gigabytes per graph. In separate processes, several compilers
can run at once, and each can be stopped or crash without affecting the others.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.placement.limits import free_memory
from handlers.worker.values import Shape
from marina.compiler.graphs.reuse import graph_key, graph_store, reuse_graph, store_graph
from marina.compiler.job import CompileJob
from marina.engines import engine_of
from marina.engines.values import CompileOptions, GraphFiles
from marina.errors import CompileError
from marina.files import is_intact

WATCH_S = 0.5  # between checks whether the process that requested the graph is alive
# Memory for one compilation: a constant for the compiler, and an amount per weight of the model.
# This is a generous rule of thumb; AWS publishes no figures.
COMPILER_BYTES = 3 << 30
BYTES_PER_WEIGHT = 40


class ProcessCompiler:
    """Starts one process per graph.

    Args:
        job: the compilation job.
        workdir: where compilers leave their logs and intermediate files, in one folder per graph.

    Attributes:
        max_parallel: the maximum number of graphs to compile at a time, each from its own thread.
    """

    def __init__(self, job: CompileJob, workdir: Path) -> None:
        self._job = job
        self._workdir = workdir
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False
        bytes_per_graph = COMPILER_BYTES + BYTES_PER_WEIGHT * job.source.count_weights()
        self.max_parallel = max(1, min(len(cpu_cores()), free_memory() // bytes_per_graph))

    def compile(self, shape: Shape, options: CompileOptions, folder: Path) -> GraphFiles:
        """Like `GraphCompiler.compile`; CompileError with the compiler's last line of output if it fails."""
        spec = self._job.spec
        workdir = self._workdir / options.file_name(str(shape))
        workdir.mkdir(parents=True, exist_ok=True)
        request = {
            "spec": spec.model_dump(mode="json", exclude_unset=True),
            "source": str(self._job.source.folder),
            "shape": str(shape),
            "settings": self._job.settings,
            "options": options._asdict(),
            "versions": self._job.versions,
            "workdir": str(workdir),
            "folder": str(folder),
        }
        (workdir / "request.json").write_text(json.dumps(request, indent=1))
        log = workdir / "trace.log"
        exit_code = self._run([sys.executable, "-m", __spec__.name, str(workdir / "request.json")], log)
        if exit_code:
            text = log.read_text(errors="replace") + ("\nended by SIG_KILL" if exit_code == -signal.SIGKILL else "")
            raise CompileError(
                f"{spec.name}: {spec.engine} cannot compile graph {shape} (exit {exit_code}): {_last_line(text)}. "
                f"Its log: {log}{self._job.engine.advice(self._job.settings, text)}"
            )
        files = json.loads((workdir / "files.json").read_text())
        weights = folder / files["weights"] if files["weights"] else None
        return GraphFiles(folder / files["graph"], weights, files["notes"])

    def stop(self) -> None:
        """End every running compilation."""
        self._stopped = True
        for process in list(self._running):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _run(self, command: list[str], log: Path) -> int:
        """Run a process and its children in a process group of their own; returns its exit status."""
        if self._stopped:
            return -signal.SIGKILL
        with log.open("w") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        self._running.add(process)
        if self._stopped:  # stopped in the meantime
            self.stop()
        try:
            exit_code = process.wait()
            return int(exit_code)
        except BaseException:
            self.stop()
            raise
        finally:
            self._running.discard(process)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it printed nothing"


def _end_with_parent() -> None:
    """End this process, and the compilers that it started, when the parent process has ended."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_S)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def main(arguments: Sequence[str]) -> None:
    """Compile the graph that a request file describes."""
    _end_with_parent()
    from marina.compiler.graphs.packable import export_for
    from marina.compiler.sources import source_at
    from marina.spec import make_spec

    request = json.loads(Path(arguments[0]).read_text())
    spec, folder, workdir = make_spec(request["spec"]), Path(request["folder"]), Path(request["workdir"])
    options = CompileOptions(request["options"]["precision"], tuple(request["options"]["mitigations"]))
    engine, shape = engine_of(spec.engine), Shape.parse(request["shape"])
    model = export_for([shape], source_at(spec, Path(request["source"])), spec.name)
    stored_graph = None
    if engine.replaces_weights(request["settings"]):
        conditions = {name: request[name] for name in ("settings", "options", "versions")}
        key = graph_key(model, shape, {"engine": engine.name, **conditions})
        stored_graph = graph_store(folder) / f"{key}.pt" if key else None
    if stored_graph and is_intact(stored_graph):
        files, stored_graph = reuse_graph(stored_graph, model, shape, folder), None
    else:
        files = engine.open_compiler(model, request["settings"], [], workdir).compile(shape, options, folder)
    file_names = {
        "graph": str(files.graph.relative_to(folder)),
        "weights": str(files.weights.relative_to(folder)) if files.weights else None,
        "notes": dict(files.notes),
    }
    (workdir / "files.json").write_text(json.dumps(file_names))
    if stored_graph:
        with suppress(OSError):  # the graph itself is finished
            store_graph(files.graph, stored_graph)


if __name__ == "__main__":
    main(sys.argv[1:])
