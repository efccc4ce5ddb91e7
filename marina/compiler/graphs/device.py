"""Runs graphs on exclusive cores, such as NeuronCores, in a separate process while a model is compiled.

A runtime holds such cores until its process ends. The separate process ends once the graphs are checked,
so a server finds the cores free.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from handlers.worker.engines import Graph, Inputs, Setup, engine_module, open_runtime
from handlers.worker.errors import ArtifactError, WorkerError
from handlers.worker.placement import place

CLOSE_S = 30  # for the runtime to release its cores


class DeviceGraph:
    """A graph in the other process; its inputs are sent with every call."""

    def __init__(self, device: EngineProcess, path: Path, inputs: Inputs) -> None:
        self.inputs = inputs
        self._device = device
        self._path = path

    def run(self, rows: int) -> list[npt.NDArray[np.float32]]:
        outputs: list[npt.NDArray[np.float32]] = self._device.call("run", self._path, list(self.inputs), rows)
        return outputs


class EngineProcess:
    """An engine in another process, with its own core group, until it is closed.

    Args:
        engine: its name.
        core_groups: the spec's core groups.
        setup: the engine's setup; the number of cores is taken from the group.
        model: the name of the model, which is recorded in the lease.

    Attributes:
        refusal: why nothing can be run here, or None: there is no NeuronCore, or none is free.
    """

    calls_at_once = 1

    def __init__(self, engine: str, core_groups: str | None, setup: Setup, model: str) -> None:
        self._cores = engine_module(engine).CORES.name
        context = multiprocessing.get_context("spawn")
        self._connection, child_connection = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(child_connection, engine, core_groups, setup, model), daemon=True
        )
        self._process.start()
        child_connection.close()
        reply = self._receive()
        self.refusal: str | None = reply if isinstance(reply, str) else None
        self.replicas: int = 1 if self.refusal else reply

    def load(self, graph: Path, weights: Path | None, inputs: Sequence[Inputs]) -> list[Graph]:
        for graph_inputs in inputs:
            self.call("load", graph, weights, graph_inputs)
        return [DeviceGraph(self, graph, graph_inputs) for graph_inputs in inputs]

    def call(self, *request: Any) -> Any:
        """Run one operation in the other process; raises the `WorkerError` that occurred there."""
        answer = self._receive(request)
        if isinstance(answer, WorkerError):
            raise answer
        return answer

    def close(self) -> None:
        """End the other process, which releases its cores."""
        self._connection.close()
        self._process.join(CLOSE_S)
        self._process.kill()

    def _receive(self, *requests: Any) -> Any:
        try:
            for request in requests:
                self._connection.send(request)
            return self._connection.recv()
        except (EOFError, OSError):
            self._process.join()
            raise ArtifactError(
                f"the process that runs graphs on the {self._cores} ended (exit {self._process.exitcode}); "
                "what it printed stands above"
            ) from None


def _serve(connection: Connection, name: str, core_groups: str | None, setup: Setup, model: str) -> None:
    """Answer calls until the other end of the connection closes."""
    try:
        placement = place(engine_module(name).CORES, core_groups, model, wait_s=0)
        runtime = open_runtime(name, setup._replace(cores=len(placement.cores), threads=placement.threads))
    except WorkerError as error:
        connection.send(str(error))
        return
    connection.send(runtime.replicas)
    graphs: dict[Path, tuple[int, Graph]] = {}
    while True:
        try:
            operation, *arguments = connection.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            connection.send(_answer(operation, arguments, runtime, graphs))
        except WorkerError as error:
            connection.send(error)
        except Exception as error:  # the caller gets every error of the runtime
            text = " ".join(str(error).split())
            connection.send(ArtifactError(f"{name}: {text.rpartition('RuntimeError: ')[2][:300]}"))


def _answer(operation: str, arguments: Sequence[Any], runtime: Any, graphs: dict[Path, tuple[int, Graph]]) -> Any:
    if operation == "load":
        path, weights, inputs = arguments
        modified_ns = path.stat().st_mtime_ns
        # cores have little memory: a graph is loaded once, and a recompiled graph replaces the old one
        if path not in graphs or graphs[path][0] != modified_ns:
            graphs.pop(path, None)
            (graphs[path],) = ((modified_ns, graph) for graph in runtime.load(path, weights, [inputs]))
        return None
    path, inputs, rows = arguments
    _, graph = graphs[path]
    for graph_input, array in zip(graph.inputs, inputs, strict=True):
        graph_input[:] = array
    return graph.run(rows)
