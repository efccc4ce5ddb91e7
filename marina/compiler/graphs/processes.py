"""Compiles each graph in a process of its own: `python -m marina.compiler.graphs.processes REQUEST`.

For engines whose compilers take minutes and gigabytes for a graph. Apart they can run several at once, be
cut off, and crash without taking the others along.
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
from marina.compiler.job import Job
from marina.compiler.source import count_weights
from marina.engines import engine_of
from marina.engines.base import CompileOptions, GraphFiles
from marina.errors import CompileError

WATCH_S = 0.5  # between looks whether the process that wants the graph is alive
# of memory for one compilation: what a compiler takes by itself, and for each weight of the model.
# A rule of thumb that leaves room; AWS gives none.
COMPILER_BYTES = 3 << 30
BYTES_A_WEIGHT = 40


class ProcessCompiler:
    """Starts a process for each graph.

    Args:
        job: what is compiled.
        workdir: where compilers leave their logs and intermediate files, a folder for each graph.

    Attributes:
        at_once: how many graphs may be compiled at a time, from threads of their own.
    """

    def __init__(self, job: Job, workdir: Path) -> None:
        self._job = job
        self._workdir = workdir
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False
        bytes_each = COMPILER_BYTES + BYTES_A_WEIGHT * count_weights(job.source)
        self.at_once = max(1, min(len(cpu_cores()), free_memory() // bytes_each))

    def compile(self, shape: Shape, options: CompileOptions, folder: Path) -> GraphFiles:
        """As `GraphCompiler` has it; CompileError, with the compiler's last words, where it fails."""
        spec = self._job.spec
        workdir = self._workdir / options.file_name(str(shape))
        workdir.mkdir(parents=True, exist_ok=True)
        request = {
            "spec": spec.model_dump(mode="json", exclude_unset=True),
            "source": str(self._job.source),
            "shape": str(shape),
            "settings": self._job.settings,
            "options": options._asdict(),
            "workdir": str(workdir),
            "folder": str(folder),
        }
        (workdir / "request.json").write_text(json.dumps(request, indent=1))
        log = workdir / "trace.log"
        code = self._run([sys.executable, "-m", __spec__.name, str(workdir / "request.json")], log)
        if code:
            text = log.read_text(errors="replace")
            raise CompileError(
                f"{spec.name}: {spec.engine} cannot compile graph {shape} (exit {code}): {_last_line(text)}. "
                f"Its log: {log}{self._job.engine.advice(self._job.settings, text)}"
            )
        files = json.loads((workdir / "files.json").read_text())
        weights = folder / files["weights"] if files["weights"] else None
        return GraphFiles(folder / files["graph"], weights, files["notes"])

    def stop(self) -> None:
        """End every compilation that is under way."""
        self._stopped = True
        for process in list(self._running):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _run(self, command: list[str], log: Path) -> int:
        """Run a process, and all that it starts, in a group of their own; returns its exit status."""
        if self._stopped:
            return -signal.SIGKILL
        with log.open("w") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        self._running.add(process)
        if self._stopped:  # meanwhile
            self.stop()
        try:
            code = process.wait()
            return int(code)
        except BaseException:
            self.stop()
            raise
        finally:
            self._running.discard(process)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it printed nothing"


def _end_with_parent() -> None:
    """End this process, and the compilers that it started, when nobody waits for them any more."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_S)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def main(arguments: Sequence[str]) -> None:
    """Compile the graph that a request file describes."""
    _end_with_parent()
    from marina.compiler.tasks import export_model
    from marina.spec import make_spec

    request = json.loads(Path(arguments[0]).read_text())
    spec, folder, workdir = make_spec(request["spec"]), Path(request["folder"]), Path(request["workdir"])
    options = CompileOptions(request["options"]["precision"], tuple(request["options"]["mitigations"]))
    model = export_model(spec, Path(request["source"]))
    compiler = engine_of(spec.engine).open_compiler(model, request["settings"], [], workdir)
    files = compiler.compile(Shape.parse(request["shape"]), options, folder)
    named = {
        "graph": str(files.graph.relative_to(folder)),
        "weights": str(files.weights.relative_to(folder)) if files.weights else None,
        "notes": dict(files.notes),
    }
    (workdir / "files.json").write_text(json.dumps(named))


if __name__ == "__main__":
    main(sys.argv[1:])
