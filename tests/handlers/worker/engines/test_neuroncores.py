"""The Neuron runtimes, on the stand-in; each test asks a process of its own, as a core belongs to one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

from handlers.worker.engines import Setup, neuroncores
from handlers.worker.errors import ArtifactError, PlacementError
from tests.conftest import ROOT
from tests.standin import PACKAGES, PROGRAMS, standin_environment

CALLS = """
import json, sys
from importlib.metadata import version
from pathlib import Path
import numpy as np, torch, torch_neuronx
from neuron_standin import RUNTIME
from handlers.worker.archive.artifact import GraphFile
from handlers.worker.archive.signature import Signature
from handlers.worker.engines import Setup, open_runtime
from handlers.worker.rows.calls import ModelGraphs, Runner, load_graphs
from handlers.worker.rows.timing import time_graphs
from handlers.worker.tasks.columns import same
from handlers.worker.values import Call, Row, Shape

class Twice(torch.nn.Module):
    def forward(self, ids, mask):
        return (2.0 * ids.float() * mask,)

shape, folder = Shape(2, 8), Path(sys.argv[1])
inputs = (torch.ones(shape.dims, dtype=torch.int64),) * 2
traced = torch_neuronx.trace(Twice(), inputs, compiler_args=["--target", "inf2"], cpu_backend=True)
torch.jit.save(traced, str(folder / "graph.pt"))
versions = {name: version(name) for name in ("torch", "torch-neuronx", "neuronx-cc")}
runtime = open_runtime("neuronx", Setup(1, 1, mode=sys.argv[2], versions=versions))
signature = Signature(("input_ids", "attention_mask"), ("out",), 0, 0, "right", {}, {}, {}, None, False)
streams = load_graphs(runtime, folder.joinpath, [GraphFile(shape, "graph.pt", None, None)], signature)
rows = [Row([number] * 8, [0] * 8) for number in range(200)]
calls = [Call(shape, (start, start + 1)) for start in range(0, 200, 2)]
outputs = Runner([ModelGraphs(streams, signature)], [same]).run(calls, rows)
right = len(outputs) == 200 and all((output[0] == 2 * number).all() for number, output in outputs.items())
followed = RUNTIME.followed_at_once()
times = time_graphs(streams, signature, 0.2)
print(json.dumps({"streams": len(streams), "right": right, "followed": followed, "ms": times[shape]}))
"""
IMPORT = """
from handlers.worker.engines.neuronx import SDK
from handlers.worker.engines.packages import find_program, import_runtime
print(import_runtime(SDK).__name__, find_program("neuronx-cc"))
"""


def run_calls(state: Path, mode: str) -> dict[str, Any]:
    environment = standin_environment(state, 1, NEURON_STANDIN_SLOW_S="0.004", NEURON_RT_VISIBLE_CORES="0")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CALLS, str(state), mode],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_core_finds_the_next_call_waiting_when_two_are_under_way(tmp_path: Path) -> None:
    """With one at a time, the core is idle while the host prepares the next; data-parallel has threads of its own."""
    one, two = run_calls(tmp_path / "one", "data-parallel"), run_calls(tmp_path / "two", "core-per-worker")
    assert one["right"]
    assert two["right"]
    assert (one["streams"], one["followed"]) == (1, 0)
    assert two["streams"] == 2
    assert two["followed"] > 0.5
    # a call takes no shorter than the core computes
    assert min(one["ms"], two["ms"]) >= 4


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """The Python of a virtual environment that has the packages of this one, and the SDK's programs in its bin."""
    venv.create(tmp_path / "venv", with_pip=False)
    for program in PROGRAMS.glob("*neuron*"):
        (tmp_path / "venv" / "bin" / program.name).symlink_to(program)
    return tmp_path / "venv" / "bin" / "python"


def run_import(python: Path) -> subprocess.CompletedProcess[str]:
    """As systemd would start it: by its absolute path, with a PATH that lacks its folder."""
    packages = os.pathsep.join([str(PACKAGES), str(ROOT), sysconfig.get_path("purelib")])
    bare = {"PATH": "/usr/bin:/bin", "PYTHONPATH": packages, "HOME": str(python.parent)}
    bare["NEURON_PLATFORM_TARGET_OVERRIDE"] = "inf2"
    return subprocess.run([python, "-W", "ignore", "-c", IMPORT], env=bare, capture_output=True, text=True, check=False)


def test_the_sdk_finds_its_programs_however_python_was_started(environment: Path) -> None:
    done = run_import(environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"torch_neuronx {environment.parent / 'neuronx-cc'}\n"


def test_a_missing_program_is_named_with_where_it_was_looked_for(environment: Path) -> None:
    (environment.parent / "libneuronpjrt-path").unlink()
    message = run_import(environment).stderr
    assert "ArtifactError: the SDK runs the program libneuronpjrt-path, which is neither in" in message
    assert f"{environment.parent} nor on PATH; install its packages once more: pip install" in message


@pytest.mark.parametrize(
    ("cause", "error", "advice"),
    [
        ("Failed to allocate, status=4 Allocation Failure", ArtifactError, "compile fewer or smaller shapes"),
        ("The PyTorch Neuron Runtime could not be initialized", PlacementError, "neuron-ls shows the process"),
    ],
)
def test_a_cause_behind_a_traceback_of_torchscript_is_recognised(
    monkeypatch: pytest.MonkeyPatch, cause: str, error: type[Exception], advice: str
) -> None:
    """As a graph raises it that loads at its first call: the interpreter's text comes first, and is long."""
    trace = (
        "Traceback of TorchScript, serialized code (most recent call last): " + "in forward, _1 = ops.neuron() " * 50
    )

    def load(*_: object) -> list[Any]:
        raise RuntimeError(
            f"The following operation failed in the TorchScript interpreter.\n{trace}\nRuntimeError: {cause}"
        )

    monkeypatch.setattr(neuroncores, "WAIT_S", -1)
    monkeypatch.setattr(neuroncores.NeuronRuntime, "_load", load)
    setup = Setup(1, 1, mode="core-per-worker")
    with pytest.raises(error) as raised:
        neuroncores.NeuronRuntime(setup, "torch-neuron", lambda module: module).load(Path("graph.pt"), None, [])
    assert cause in str(raised.value)
    assert advice in str(raised.value)
