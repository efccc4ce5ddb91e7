"""A stand-in for the Neuron runtime: it enforces what AWS documents, and computes on the CPU.

Nothing here is AWS's or ever runs on a NeuronCore. The rules, and their sources (SDK: the documents of aws-neuron-sdk):

- A core belongs to one process; the variables and messages are those of SDK neuron-runtime/nrt-troubleshoot.rst.
- Tracing runs the compiler that PATH has: `neuron-cc` (#462), `neuronx-cc` (#737), and importing torch_neuronx runs
  `libneuronpjrt-path` (aws-neuron-samples #69). bin/ has stand-ins for them.
- A core holds 2 GB of graphs on Inf1 and 16 GB on Inf2 (SDK about-neuron/arch/neuron-hardware); more is
  status 4 (#369).
- neuron-cc leaves operators to the CPU that are not in its list (SDK neuron-cc-ops-pytorch.rst), among them
  embeddings; with fallback=False they are an error.
- A pipeline that neuron-cc cannot make ends a trace: nothing was compiled (#618, #1064).
- A graph of a newer compiler is refused with status 10 (#820).

What it does is steered by the environment:

NEURON_STANDIN            a folder for the claims of cores; without it there is no device
NEURON_STANDIN_CORES      how many cores the pretended instance has
NEURON_STANDIN_SLOW_S     seconds that a call takes, at least
NEURON_STANDIN_COMPILE_S  seconds that compiling a graph takes, at least
NEURON_STANDIN_NAN        what graphs must be compiled with to compute numbers: saturate, exact or nothing-helps
NEURON_STANDIN_DIE_AFTER  calls after which a process is killed
NEURON_STANDIN_LACKS      one more operator that the compiler of Inf1 does not know, for example aten::tanh
NEURON_STANDIN_MEMORY     bytes of device memory for each core
NEURON_STANDIN_PIPELINE   the largest number of cores that neuron-cc can make a pipeline for
NEURON_STANDIN_RUNTIME    "old" for a runtime that is older than the compilers
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import shutil
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import torch

FLAGS = ("dynamic_batch", "lazy_load", "async_load", "weights_moved")
CORE_BYTES = {"inf1": 2 << 30, "inf2": 16 << 30}
LEAST_FLOAT = re.compile(r"-3\.4028\d*e\+38")


class Runtime:
    """The cores of this process, which it has until it ends."""

    def __init__(self) -> None:
        self.cores: list[int] | None = None
        self._files: list[Any] = []
        self._lock = threading.Lock()
        self._calls = 0
        self._bytes = 0
        self._busy = threading.Semaphore(1)
        self._waiting = 0
        self._found_waiting = 0
        self._idle_s = self._began = self._ended = 0.0
        self.replicates = False

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
            self._waiting += 1
        with self._busy:
            with self._lock:
                self._waiting -= 1
                now = time.perf_counter()
                self._idle_s += now - self._ended if self._ended else 0.0
                self._began = self._began or now
            time.sleep(float(os.environ.get("NEURON_STANDIN_SLOW_S", "0")))
            outputs = graph.run(inputs, flags["dynamic_batch"])
            self._ended = time.perf_counter()
        with self._lock:
            self._found_waiting += self._waiting > 0
        return outputs

    def idle(self) -> float:
        """The share of time, from the first call to the last, in which a process's only core computed nothing."""
        return self._idle_s / max(1e-9, self._ended - self._began)

    def followed_at_once(self) -> float:
        """The share of calls at whose end another one was waiting, so that the core did not become idle."""
        return self._found_waiting / max(1, self._calls)

    def load(self, graph: Graph) -> None:
        """Put a graph into the device memory of this process's cores."""
        cores = self.claim()
        copies = len(cores) // graph.header["pipeline_cores"] if self.replicates else 1
        _note("loaded", copies=copies, pipeline_cores=graph.header["pipeline_cores"])
        if graph.header["pipeline_cores"] > len(cores):
            _print(f"NRT:nrt_load not enough NeuronCores: {graph.header['pipeline_cores']} of {len(cores)}")
            raise RuntimeError("Could not load the model status=9 message=Not enough NC")
        if os.environ.get("NEURON_STANDIN_RUNTIME") == "old":
            _print("NEFF version: 2.0, features: 0x100 are not supported.  Currently supporting: 0x80000000000000ff")
            raise RuntimeError("Could not load the model status=10 message=Unsupported NEFF version")
        graph.bytes = graph.size * copies
        each = int(os.environ.get("NEURON_STANDIN_MEMORY", CORE_BYTES[graph.header["generation"]]))
        with self._lock:
            if self._bytes + graph.bytes > each * len(cores) or graph.size > each * graph.header["pipeline_cores"]:
                _print(f"Failed to load NN: {graph.size} bytes, err: 4")
                raise RuntimeError("Could not load the model status=4 message=Allocation Failure")
            self._bytes += graph.bytes

    def unload(self, graph: Graph | None) -> None:
        """Free the device memory of a graph."""
        with self._lock:
            self._bytes -= graph.bytes if graph else 0


class Graph:
    """A compiled graph, as it lies in the buffer of a traced module."""

    def __init__(self, content: bytes) -> None:
        self.size = self.bytes = len(content)
        self.header, module = _unpacked(content)
        self._module = _load(io.BytesIO(module))

    def run(self, inputs: list[torch.Tensor], dynamic: bool) -> list[torch.Tensor]:
        shapes, types = self.header["shapes"], self.header["types"]
        if len(inputs) != len(shapes) + self.header["on_cpu"]:  # operators on the CPU give one each
            raise RuntimeError(f"expected {len(shapes)} inputs, received {len(inputs)}")
        inputs = inputs[: len(shapes)]
        for index, (tensor, shape, kind) in enumerate(zip(inputs, shapes, types, strict=True)):
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
_GRAPHS: dict[tuple[str, int], Graph] = {}
_tracing = False
_load = torch.jit.load

_library = torch.library.Library("neuron", "DEF")
_library.define("forward_v2(Tensor content, Tensor flags, str key, Tensor[] inputs) -> Tensor[]")


def _forward(content: torch.Tensor, flags: torch.Tensor, key: str, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    if _tracing:
        return Graph(bytes(content.numpy())).run(inputs, False)
    return RUNTIME.execute(_loaded(content, key), inputs, dict(zip(FLAGS, map(bool, flags), strict=True)))


def _loaded(content: torch.Tensor, key: str) -> Graph:
    """The graph in a buffer, in device memory."""
    place = (key, content.data_ptr())
    if place not in _GRAPHS:
        graph = Graph(bytes(content.numpy()))
        RUNTIME.load(graph)
        _GRAPHS[place] = graph
    return _GRAPHS[place]


_library.impl("forward_v2", _forward, "CPU")


class _Compiled(torch.nn.Module):
    def __init__(self, content: bytes, key: str, on_cpu: int) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(1, 1))
        self.register_buffer("index", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("content", torch.frombuffer(bytearray(content), dtype=torch.uint8))
        self.register_buffer("flags", torch.zeros(len(FLAGS), dtype=torch.uint8))
        self.key, self.on_cpu = key, on_cpu

    def forward(self, *inputs: torch.Tensor) -> Any:
        looked_up = [torch.nn.functional.embedding(self.index, self.table) for _ in range(self.on_cpu)]
        return tuple(torch.ops.neuron.forward_v2(self.content, self.flags, self.key, [*inputs, *looked_up]))


def trace_on_cpu(model: Any, inputs: Any) -> tuple[Any, tuple[torch.Tensor, ...]]:
    """The TorchScript of a model, and its inputs as a tuple: AWS's notebooks give a list of them, too."""
    inputs = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
    if not all(isinstance(tensor, torch.Tensor) for tensor in inputs):
        raise TypeError("example_inputs must be tensors")
    if not callable(model):
        raise TypeError("the model must be a module or a callable")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(model, inputs, check_trace=False), inputs


def compile_graph(inner: Any, inputs: tuple[torch.Tensor, ...], header: dict[str, Any], on_cpu: int = 0) -> Any:
    """Wrap a trace as one operator that only the runtime can run.

    Args:
        inner: from `trace_on_cpu`.
        inputs: from there, too.
        header: `arguments`, `casts` (none, products, all), `saturates`, `exact`, `pipeline_cores`, `generation`,
            `separate_weights`.
        on_cpu: the number of operators that are left to the CPU.
    """
    global _tracing  # noqa: PLW0603
    time.sleep(float(os.environ.get("NEURON_STANDIN_COMPILE_S", "0")))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        memory = io.BytesIO()
        torch.jit.save(inner if header["separate_weights"] else torch.jit.freeze(inner.eval()), memory)
        wanted = os.environ.get("NEURON_STANDIN_NAN")
        masked = bool(LEAST_FLOAT.search(str(inner.inlined_graph)))
        helps = {"saturate": header["saturates"], "exact": header["exact"], "nothing-helps": False}
        full = {
            **header,
            "key": os.urandom(8).hex(),
            "on_cpu": on_cpu,
            "shapes": [list(tensor.shape) for tensor in inputs],
            "types": [str(tensor.dtype) for tensor in inputs],
            "rounds": header["casts"] != "none",
            "overflows": not helps[wanted]
            if wanted
            else header["casts"] == "all" and masked and not header["saturates"],
        }
        content = _packed(full, memory.getvalue())
        _tracing = True
        try:
            return torch.jit.trace(_Compiled(content, full["key"], on_cpu), inputs, check_trace=False)
        finally:
            _tracing = False


def header_of(module: Any) -> dict[str, Any]:
    """What a traced module was compiled with; TypeError for any other module."""
    try:
        return _unpacked(bytes(module.content.numpy()))[0]
    except AttributeError:
        raise TypeError("the module was not traced for Neuron") from None


def set_weights(module: Any, weights: dict[str, torch.Tensor]) -> None:
    """Give a traced module other weights, by the names that they had in the module that was traced."""
    header, content = _unpacked(bytes(module.content.numpy()))
    inner = _load(io.BytesIO(content))
    lacking = inner.load_state_dict(weights, strict=False)
    parameters = {name for name, _ in inner.named_parameters()}
    if lacking.unexpected_keys or parameters & set(lacking.missing_keys):
        raise RuntimeError(f"the weights are not those of the traced module: {lacking}")
    RUNTIME.unload(_GRAPHS.pop((header["key"], module.content.data_ptr()), None))
    memory = io.BytesIO()
    torch.jit.save(inner, memory)
    module.content = torch.frombuffer(bytearray(_packed(header, memory.getvalue())), dtype=torch.uint8)


def replicating(active: bool) -> None:
    """Whether graphs that are loaded now are copied to all cores of this process."""
    RUNTIME.replicates = active


def compiler(name: str, missing: str) -> str:
    """The program that compiles; RuntimeError if PATH has none."""
    found = shutil.which(name)
    if found is None:
        raise RuntimeError(missing)
    return found


def _packed(header: dict[str, Any], module: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "big") + text + module


def _unpacked(content: bytes) -> tuple[dict[str, Any], bytes]:
    size = int.from_bytes(content[:8], "big")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def set_flag(module: Any, name: str, value: bool) -> None:
    """Set one of `FLAGS` in a traced module."""
    header_of(module)
    module.flags[FLAGS.index(name)] = int(value)


def _load_and_place(file: Any, *args: Any, **kwargs: Any) -> Any:
    """`torch.jit.load`, which puts a traced module on a core as it is loaded, unless it is to load lazily."""
    module = _load(file, *args, **kwargs)
    if hasattr(module, "content") and not bool(module.flags[FLAGS.index("lazy_load")]):
        _loaded(module.content, header_of(module)["key"])
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
