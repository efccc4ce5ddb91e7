"""The stand-in itself: what it refuses, as the documentation says that the real thing does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.standin import PACKAGES, events, standin_environment

pytestmark = pytest.mark.long

MODEL = """
import sys, torch, torch_neuron, torch_neuronx
class Sum(torch.nn.Module):
    def forward(self, a, b):
        return (a.float() + b,)
inputs = (torch.zeros(2, 4, dtype=torch.int64),) * 2
inf1 = ["--fast-math", "none", "--neuroncore-pipeline-cores"]
"""
RUN = """
torch.jit.save(torch_neuron.trace(Sum(), inputs, compiler_args=[*inf1, "1"]), sys.argv[1])
module = torch.jit.load(sys.argv[1])
for _ in range(3):
    assert module(*inputs)[0].shape == (2, 4)
print("ran", flush=True)
"""


def run(code: str, state: Path, cores: int = 4, **knobs: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MODEL + code, str(state / "graph.pt")],
        env={**os.environ, **standin_environment(state, cores, **knobs)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_it_computes_and_claims_what_it_is_told(tmp_path: Path) -> None:
    """VISIBLE_CORES wins over NUM_CORES."""
    result = run(RUN, tmp_path, NEURON_RT_VISIBLE_CORES="1-2", NEURON_RT_NUM_CORES="4", NEURON_STANDIN_SLOW_S="0.01")
    assert result.stdout == "ran\n", result.stderr
    assert [event["cores"] for event in events(tmp_path)] == [[1, 2]]


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"NEURON_RT_VISIBLE_CORES": "0,2"}, "Neuron cores are not contiguous"),
        ({"NEURON_RT_VISIBLE_CORES": "9"}, "NeuronCore(s) not available - Requested:nc9-nc9 Available:0"),
        ({"NEURON_RT_NUM_CORES": "8"}, "NeuronCore(s) not available - Requested:8 Available:0"),
    ],
)
def test_cores_that_cannot_be_had(tmp_path: Path, knobs: dict[str, str], message: str) -> None:
    result = run(RUN, tmp_path, 4, **knobs)
    assert message in result.stderr
    assert "RuntimeError: The PyTorch Neuron Runtime could not be initialized" in result.stderr


def test_a_core_has_one_process_until_it_ends(tmp_path: Path) -> None:
    again = f"import subprocess; subprocess.run([sys.executable, '-c', {MODEL + RUN!r}, sys.argv[1]])"
    result = run(RUN + again, tmp_path, NEURON_RT_VISIBLE_CORES="0")
    assert "not available - Requested:nc0-nc0 Available:0" in result.stderr
    assert run(RUN, tmp_path, NEURON_RT_VISIBLE_CORES="0").stdout == "ran\n"


def test_it_dies_when_told(tmp_path: Path) -> None:
    assert run(RUN, tmp_path, NEURON_STANDIN_DIE_AFTER="2").returncode == -9


REFUSALS = """
def refused(kind, work):
    try:
        work()
    except kind as error:
        return
    raise AssertionError(f"{kind} was not raised")
refused(TypeError, lambda: torch_neuron.trace(Sum(), inputs, cpu_backend=True))
refused(RuntimeError, lambda: torch_neuron.trace(Sum(), inputs, compiler_args=["-O2"]))
refused(TypeError, lambda: torch_neuronx.trace(Sum(), inputs, dynamic_batch_size=True))
refused(RuntimeError, lambda: torch_neuronx.trace(Sum(), inputs, cpu_backend=True))
refused(RuntimeError, lambda: torch_neuronx.trace(Sum(), inputs, compiler_args="--auto-cast matmul"))
refused(RuntimeError, lambda: torch_neuronx.trace(Sum(), inputs, compiler_args="--target trn1 --lnc 2"))
refused(TypeError, lambda: torch_neuron.DataParallel(Sum()))
refused(TypeError, lambda: torch_neuron.DataParallel(Sum(), set_dynamic_batching=True))
traced = torch_neuronx.trace(Sum(), inputs, compiler_args=["--target", "inf2"], cpu_backend=True)
refused(RuntimeError, lambda: traced(inputs[0][:1], inputs[1][:1]))
refused(RuntimeError, lambda: traced(inputs[0].int(), inputs[1]))
refused(ValueError, lambda: torch_neuronx.DataParallel(traced, device_ids=[4]))
parallel = torch_neuronx.DataParallel(traced)
assert parallel.num_workers == 2 and torch_neuronx.DataParallel(traced, device_ids=[0, 2]).num_workers == 4
many = torch.arange(32).reshape(8, 4)
parallel.split_size = 4  # more than what was compiled, and divided again
assert (parallel(many, many)[0] == 2 * many).all()
parallel.disable_dynamic_batching()
refused(RuntimeError, lambda: parallel(many[:4], many[:4]))
pipeline = torch_neuron.trace(Sum(), inputs, compiler_args=[*inf1, "8"])
refused(RuntimeError, lambda: torch_neuron.DataParallel(pipeline))
refused(RuntimeError, lambda: pipeline(*inputs))
torch.jit.save(traced, sys.argv[1])
print("refused")
"""


ACCEPTED = """
torch_neuron.trace(Sum(), list(inputs), compiler_args="--fast-math=none", verbose=1)
for arguments in ("--target=inf2 -O1", ["--target", "trn1", "-O", "3"], ["--target", "trn2", "--lnc=2"],
                  ["--target", "trn2", "-lnc", "2"], "--target inf2 --auto-cast matmult --auto-cast-type=bf16"):
    torch_neuronx.trace(Sum(), list(inputs), compiler_args=arguments, cpu_backend=True)
print("accepted")
"""


def test_what_examples_of_aws_have_is_accepted(tmp_path: Path) -> None:
    result = run(ACCEPTED, tmp_path)
    assert result.stdout == "accepted\n", result.stderr


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"NEURON_STANDIN_MEMORY": "100"}, "Could not load the model status=4 message=Allocation Failure"),
        ({"NEURON_STANDIN_RUNTIME": "old"}, "NEFF version: 2.0, features: 0x100 are not supported"),
        ({"PATH": "/usr/bin:/bin"}, "No such file or directory: 'libneuronpjrt-path'"),
    ],
)
def test_what_a_host_lacks_is_said_as_the_sdk_says_it(tmp_path: Path, knobs: dict[str, str], message: str) -> None:
    result = run(RUN, tmp_path, 4, **knobs)
    assert result.returncode != 0
    assert message in result.stderr


WEIGHTS = """
class Scale(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor(factor))
    def forward(self, a, b):
        return (a * self.factor,)
ones = (torch.ones(2, 4, dtype=torch.int64),) * 2
target = {"compiler_args": ["--target", "inf2"], "cpu_backend": True}
torch.jit.save(torch_neuronx.trace(Scale(3.0), ones, inline_weights_to_neff=False, **target), sys.argv[1])
module = torch.jit.load(sys.argv[1])
assert module(*ones)[0][0, 0] == 3
torch_neuronx.replace_weights(module, Scale(5.0).state_dict())
torch_neuronx.move_trace_to_device(module, 0)
assert module(*ones)[0][0, 0] == 5
torch_neuronx.replace_weights(torch_neuronx.trace(Scale(3.0), ones, **target), Scale(5.0))
"""


def test_weights_outside_of_a_graph_can_be_replaced(tmp_path: Path) -> None:
    result = run(WEIGHTS.replace('"ignore"', '"default"'), tmp_path)
    assert result.returncode == 0, result.stderr


def test_what_is_not_documented_is_refused(tmp_path: Path) -> None:
    result = run(REFUSALS, tmp_path)
    assert result.stdout == "refused\n", result.stderr
    load = f"import torch; torch.jit.load({str(tmp_path / 'graph.pt')!r})"
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    missing = subprocess.run([sys.executable, "-c", load], env=bare, capture_output=True, text=True, check=False)
    assert "Unknown builtin op: neuron::forward_v2" in missing.stderr
    assert PACKAGES.is_dir()
