"""A stand-in for the Neuron runtime: it enforces what AWS documents, and computes on the CPU.

Nothing here is AWS's or ever runs on a NeuronCore. What it does is steered by the environment:

NEURON_STANDIN            a folder for the claims of cores; without it there is no device
NEURON_STANDIN_CORES      how many cores the pretended instance has
NEURON_STANDIN_SLOW_S     seconds that a call takes, at least
NEURON_STANDIN_COMPILE_S  seconds that compiling a graph takes, at least
NEURON_STANDIN_NAN        what graphs must be compiled with to compute numbers: saturate, exact or nothing-helps
NEURON_STANDIN_DIE_AFTER  calls after which a process is killed
NEURON_STANDIN_LACKS      an operator that the compiler of Inf1 does not know, for example aten::tanh
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import torch

FLAGS = ("dynamic_batch", "lazy_load", "async_load", "weights_moved")
LEAST_FLOAT = re.compile(r"-3\.4028\d*e\+38")


class Runtime:
    """The cores of this process, which it has until it ends."""

    def __init__(self) -> None:
        self.cores: list[int] | None = None
        self._files: list[Any] = []
        self._lock = threading.Lock()
        self._calls = 0
        self._busy = threading.Semaphore(1)

    def claim(self) -> list[int]:
        """Take the cores that the environment gives this process, as the runtime's initialisation does."""
        with self._lock:
            if self.cores is None:
                self._claim()
            assert self.cores is not None
            return self.cores

    def _claim(self) -> None:
        if "NEURON_STANDIN" not in os.environ:
            _print("TDRV:tdrv_get_dev_info No neuron device available")
            raise _not_initialized()
        total = int(os.environ["NEURON_STANDIN_CORES"])
        if "NEURONCORE_GROUP_SIZES" in os.environ:
            _print("NEURONCORE_GROUP_SIZES is being deprecated")
        visible = os.environ.get("NEURON_RT_VISIBLE_CORES")
        count = int(os.environ.get("NEURON_RT_NUM_CORES", "0")) or total
        if visible:
            asked = _parse(visible)
            if asked != list(range(asked[0], asked[0] + len(asked))):
                _print("NRT:nrt_allocate_neuron_cores Neuron cores are not contiguous")
                raise _not_initialized()
            cores, requested = self._lock_all(asked) if asked[-1] < total else None, f"nc{asked[0]}-nc{asked[-1]}"
        else:
            starts = range(total - count + 1)
            found = (self._lock_all(list(range(start, start + count))) for start in starts)
            cores, requested = next((group for group in found if group), None), str(count)
        if cores is None:
            _note("refused", requested=requested)
            _print(f"NRT:nrt_allocate_neuron_cores NeuronCore(s) not available - Requested:{requested} Available:0")
            raise _not_initialized()
        self.cores = cores
        self._busy = threading.Semaphore(len(cores))
        names = ("NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES", "NEURONCORE_GROUP_SIZES", "NEURON_PROCESS_TAG")
        _note("claimed", cores=cores, environment={name: os.environ.get(name) for name in names})

    def _lock_all(self, cores: list[int]) -> list[int] | None:
        folder = Path(os.environ["NEURON_STANDIN"])
        files = []
        for core in cores:
            file = (folder / f"nc{core}").open("a")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                for taken in [*files, file]:
                    taken.close()
                return None
            files.append(file)
        self._files += files
        return cores

    def execute(self, graph: Graph, inputs: list[torch.Tensor], flags: dict[str, bool]) -> list[torch.Tensor]:
        """One call of one graph."""
        with self._lock:
            self._calls += 1
            if self._calls == int(os.environ.get("NEURON_STANDIN_DIE_AFTER", "0")):
                os.kill(os.getpid(), signal.SIGKILL)
        with self._busy:
            time.sleep(float(os.environ.get("NEURON_STANDIN_SLOW_S", "0")))
            return graph.run(inputs, flags["dynamic_batch"])


class Graph:
    """A compiled graph, as it lies in the buffer of a traced module."""

    def __init__(self, content: bytes) -> None:
        size = int.from_bytes(content[:8], "big")
        self.header = json.loads(content[8 : 8 + size])
        self._module = torch.jit.load(io.BytesIO(content[8 + size :]))

    def run(self, inputs: list[torch.Tensor], dynamic: bool) -> list[torch.Tensor]:
        shapes, types = self.header["shapes"], self.header["types"]
        if len(inputs) != len(shapes):
            raise RuntimeError(f"expected {len(shapes)} inputs, received {len(inputs)}")
        for index, (tensor, shape, kind) in enumerate(zip(inputs, shapes, types)):
            if list(tensor.shape) != shape and not (dynamic and list(tensor.shape[1:]) == shape[1:]):
                received, expected = (" ".join(map(str, sizes)) for sizes in (tensor.shape, shape))
                raise RuntimeError(
                    f"Incorrect tensor shape at input tensor #{index}: received {received}, expected {expected}."
                )
            if str(tensor.dtype) != kind:
                raise RuntimeError(f"Incorrect data type at input tensor #{index}: {tensor.dtype}, expected {kind}.")
        outputs = list(self._module(*inputs))
        if self.header["overflows"]:
            return [torch.full_like(output, float("nan")) for output in outputs]
        if self.header["rounds"]:
            outputs = [output.bfloat16().float() for output in outputs]
        return outputs


RUNTIME = Runtime()
_GRAPHS: dict[str, Graph] = {}
_tracing = False
_load = torch.jit.load

_library = torch.library.Library("neuron", "DEF")
_library.define("forward_v2(Tensor content, Tensor flags, str key, Tensor[] inputs) -> Tensor[]")


def _forward(content: torch.Tensor, flags: torch.Tensor, key: str, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    if key not in _GRAPHS:
        _GRAPHS[key] = Graph(bytes(content.numpy()))
    if _tracing:
        return _GRAPHS[key].run(inputs, False)
    named = dict(zip(FLAGS, map(bool, flags)))
    place(_GRAPHS[key])
    return RUNTIME.execute(_GRAPHS[key], inputs, named)


_library.impl("forward_v2", _forward, "CPU")


class _Compiled(torch.nn.Module):
    def __init__(self, content: bytes, key: str, on_cpu: bool) -> None:
        super().__init__()
        self.register_buffer("content", torch.frombuffer(bytearray(content), dtype=torch.uint8))
        self.register_buffer("flags", torch.zeros(len(FLAGS), dtype=torch.uint8))
        self.key, self.on_cpu = key, on_cpu

    def forward(self, *inputs: torch.Tensor) -> Any:
        outputs = torch.ops.neuron.forward_v2(self.content, self.flags, self.key, list(inputs))
        return tuple(output * 1.0 for output in outputs) if self.on_cpu else tuple(outputs)


def compile_graph(model: Any, inputs: Any, header: dict[str, Any], on_cpu: bool) -> Any:
    """Trace a model, and wrap it as one operator that only the runtime can run.

    Args:
        model: a module, or any callable.
        inputs: example tensors.
        header: `arguments`, `casts` (none, products, all), `saturates`, `exact`, `pipeline_cores`.
        on_cpu: leave some operators to the CPU.
    """
    global _tracing  # noqa: PLW0603
    inputs = (inputs,) if isinstance(inputs, torch.Tensor) else inputs
    if not (isinstance(inputs, tuple) and all(isinstance(tensor, torch.Tensor) for tensor in inputs)):
        raise TypeError("example_inputs must be a tensor or a tuple of tensors")
    if not callable(model):
        raise TypeError("the model must be a module or a callable")
    time.sleep(float(os.environ.get("NEURON_STANDIN_COMPILE_S", "0")))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inner = torch.jit.trace(model, inputs, check_trace=False)
        memory = io.BytesIO()
        torch.jit.save(torch.jit.freeze(inner.eval()), memory)
        wanted = os.environ.get("NEURON_STANDIN_NAN")
        masked = bool(LEAST_FLOAT.search(str(inner.inlined_graph)))
        helps = {"saturate": header["saturates"], "exact": header["exact"], "nothing-helps": False}
        full = {
            **header,
            "shapes": [list(tensor.shape) for tensor in inputs],
            "types": [str(tensor.dtype) for tensor in inputs],
            "rounds": header["casts"] != "none",
            "overflows": not helps[wanted]
            if wanted
            else header["casts"] == "all" and masked and not header["saturates"],
        }
        text = json.dumps(full).encode()
        content = len(text).to_bytes(8, "big") + text + memory.getvalue()
        _tracing = True
        try:
            return torch.jit.trace(_Compiled(content, os.urandom(8).hex(), on_cpu), inputs, check_trace=False)
        finally:
            _tracing = False


def header_of(module: Any) -> dict[str, Any]:
    """What a traced module was compiled with; TypeError for any other module."""
    try:
        content = bytes(module.content.numpy())
    except AttributeError:
        raise TypeError("the module was not traced for Neuron") from None
    size = int.from_bytes(content[:8], "big")
    header: dict[str, Any] = json.loads(content[8 : 8 + size])
    return header


def set_flag(module: Any, name: str, value: bool) -> None:
    """Set one of `FLAGS` in a traced module."""
    header_of(module)
    module.flags[FLAGS.index(name)] = int(value)


def place(graph: Graph) -> None:
    """Put a graph on the cores of this process."""
    cores = RUNTIME.claim()
    if graph.header["pipeline_cores"] > len(cores):
        _print(f"NRT:nrt_load not enough NeuronCores: {graph.header['pipeline_cores']} of {len(cores)}")
        raise RuntimeError("Could not load the model status=9 message=Not enough NC")


def _load_and_place(file: Any, *args: Any, **kwargs: Any) -> Any:
    """`torch.jit.load`, which puts a traced module on a core as it is loaded, unless it is to load lazily."""
    module = _load(file, *args, **kwargs)
    if hasattr(module, "content") and not bool(module.flags[FLAGS.index("lazy_load")]):
        place(Graph(bytes(module.content.numpy())))
    return module


torch.jit.load = _load_and_place


def _parse(text: str) -> list[int]:
    cores = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cores += range(int(first), int(last or first) + 1)
    return cores


def _not_initialized() -> RuntimeError:
    _print("NRT:nrt_init nrt_init failed. Status = 1")
    return RuntimeError(
        "The PyTorch Neuron Runtime could not be initialized. Neuron Driver issues are logged to syslog"
    )


def _print(text: str) -> None:
    print(f"ERROR {text}", file=sys.stderr, flush=True)


def _note(event: str, **fields: Any) -> None:
    """Add a line to the log that tests read."""
    line = json.dumps({"event": event, "pid": os.getpid(), "time": time.time(), **fields})
    with (Path(os.environ["NEURON_STANDIN"]) / "events.jsonl").open("a") as file:
        file.write(line + "\n")
