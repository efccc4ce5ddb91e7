"""Compiles each graph of a Neuron engine in a process of its own: `python -m marina.compiler.tracing REQUEST`.

Compilers of Neuron take minutes and gigabytes for a graph. Apart they can run several at once, be
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
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.placement.limits import free_memory
from handlers.worker.values import Shape
from marina.compiler.engines import GraphPaths, Recipe
from marina.compiler.source import count_weights
from marina.errors import CompileError

if TYPE_CHECKING:
    from marina.compiler.export import ExportedModel
    from marina.compiler.job import Job

WATCH_S = 0.5  # between looks whether the process that wants the graph is alive
# of memory for one compilation: what a compiler takes by itself, and for each weight of the model.
# A rule of thumb that leaves room; AWS gives none.
COMPILER_BYTES = 3 << 30
BYTES_A_WEIGHT = 40


class TracingCompiler:
    """Starts a process for each graph.

    Args:
        job: what is compiled.
        workdir: where compilers leave their logs and intermediate files, a folder for each graph.
    """

    def __init__(self, job: Job, workdir: Path) -> None:
        self._job = job
        self._workdir = workdir
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False
        bytes_each = COMPILER_BYTES + BYTES_A_WEIGHT * count_weights(job.source)
        self.at_once = max(1, min(len(cpu_cores()), free_memory() // bytes_each))

    def compile(self, shape: Shape, recipe: Recipe, folder: Path) -> GraphPaths:
        graph = folder / "graphs" / f"{shape}.pt"
        workdir = self._workdir / recipe.file_name(str(shape))
        workdir.mkdir(parents=True, exist_ok=True)
        request = {
            "spec": self._job.spec.model_dump(mode="json", exclude_unset=True),
            "source": str(self._job.source),
            "shape": str(shape),
            "options": self._job.options,
            "mitigations": recipe.mitigations,
            "workdir": str(workdir),
            "graph": str(graph),
        }
        (workdir / "request.json").write_text(json.dumps(request, indent=1))
        log = workdir / "trace.log"
        code = self._run([sys.executable, "-m", __spec__.name, str(workdir / "request.json")], log)
        if code:
            raise CompileError(
                f"{self._job.spec.name}: {self._job.spec.engine} cannot compile graph {shape} "
                f"(exit {code}): {_last_line(log)}. Its log: {log}{_advice(self._job, log)}"
            )
        return GraphPaths(graph, None, json.loads((workdir / "notes.json").read_text()))

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


def _advice(job: Job, log: Path) -> str:
    """What may help, where the SDK says it."""
    if (
        job.spec.engine == "neuron"
        and not job.options["fallback"]
        and "AttributeError" in log.read_text(errors="replace")
    ):
        return ". With neuron.fallback: true what neuron-cc does not know runs on the CPU"
    return ""


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it printed nothing"


def count_operators(module: Any) -> int:
    """The computing operators of a TorchScript module; a compiled part of it counts for none."""
    return sum(_count(node) for node in module.inlined_graph.nodes())


def _count(node: Any) -> int:
    inner = sum(_count(child) for block in node.blocks() for child in block.nodes())
    return int(inner) + int(node.kind().startswith("aten::"))


def _end_with_parent() -> None:
    """End this process, and the compilers that it started, when nobody waits for them any more."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_S)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def main(arguments: Sequence[str]) -> None:
    """Compile the graph that a request file tells of."""
    _end_with_parent()
    from marina.compiler.export import export_model
    from marina.compiler.mitigations import FINITE_MASK, finite_mask
    from marina.spec import make_spec

    request = json.loads(Path(arguments[0]).read_text())
    spec = make_spec(request["spec"])
    workdir, graph = Path(request["workdir"]), Path(request["graph"])
    compiler = import_module(f"marina.compiler.{spec.engine}")
    model: ExportedModel = export_model(spec, Path(request["source"]))
    shape, mitigations = Shape.parse(request["shape"]), request["mitigations"]
    with finite_mask() if FINITE_MASK in mitigations else nullcontext():
        traced, notes = compiler.trace(model, shape, request["options"], mitigations, workdir)

    import torch

    partial = graph.with_suffix(f".{os.getpid()}.partial")  # an earlier run may have left one at work
    torch.jit.save(traced, str(partial))
    (workdir / "notes.json").write_text(json.dumps(notes))
    partial.replace(graph)


if __name__ == "__main__":
    main(sys.argv[1:])
