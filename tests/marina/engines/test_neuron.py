"""Compiling for Neuron against the stand-in: what is passed, what is recorded, what happens when it fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.artifact import read_artifact
from marina.compiler import compile_model
from marina.compiler.job import engine_settings
from marina.engines import neuron, neuronx
from marina.engines.mitigations import LADDER, MASK, finite_mask
from marina.engines.neuron import CASTS, FAST_MATH, NeuronOptions
from marina.engines.neuronx import NeuronxOptions
from marina.errors import CompileError, SpecError
from marina.project import Project
from marina.spec import make_spec, read_spec
from tests.conftest import no_progress
from tests.standin import PACKAGES, standin_environment

AddTiny = Callable[..., Path]
LEAST: dict[str, Any] = {"name": "m", "task": "text-classification", "source": {"path": "x"}}
INF1 = st.one_of(
    st.builds(NeuronOptions, fast_math=st.sampled_from(FAST_MATH)),
    st.builds(NeuronOptions, fast_math=st.none(), fp32_cast=st.sampled_from(CASTS)),
)
INF2 = st.builds(
    NeuronxOptions,
    target=st.sampled_from(["inf2", "trn1", "trn1n", "trn2"]),
    auto_cast=st.sampled_from(["none", "matmult", "all"]),
    auto_cast_type=st.sampled_from(["bf16", "fp16", "tf32", "fp8_e4m3"]),
    optlevel=st.sampled_from([1, 2, 3]),
    compiler_args=st.sampled_from([(), ("--enable-fast-context-switch",)]),
)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes this process one on a pretended instance with four cores, or on a machine without any."""

    def make(cores: int = 4, **knobs: str) -> Path:
        state = tmp_path / "host"
        for name, value in standin_environment(state, cores, **knobs).items():
            monkeypatch.setenv(name, value)
        if not cores:
            monkeypatch.delenv("NEURON_STANDIN")
        return state

    return make


@pytest.fixture(scope="module", autouse=True)
def packages() -> Iterator[None]:
    """The stand-in's packages can be imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PACKAGES))
        yield


@given(options=INF1, cores=st.integers(1, 16), mitigations=st.sampled_from(LADDER))
def test_every_argument_for_inf1_is_documented(
    options: NeuronOptions, cores: int, mitigations: tuple[str, ...]
) -> None:
    import torch_neuron

    passed = neuron.ENGINE.arguments({**options.model_dump(mode="json"), "pipeline_cores": cores}, mitigations)
    read = torch_neuron._read(passed)
    assert read["pipeline_cores"] == cores
    assert read["saturates"] == ("saturate-infinity" in mitigations)
    assert read["exact"] or "more-exact" not in mitigations
    assert (read["casts"] == "all") == (options.casts_all and "more-exact" not in mitigations)


@given(options=INF2, mitigations=st.sampled_from(LADDER))
def test_every_argument_for_inf2_is_documented(options: NeuronxOptions, mitigations: tuple[str, ...]) -> None:
    import torch_neuronx

    read = torch_neuronx._read(neuronx.ENGINE.arguments(options.model_dump(mode="json"), mitigations))
    assert read["saturates"] == ("saturate-infinity" in mitigations)
    assert (read["casts"] == "none") == (options.auto_cast == "none" or "more-exact" in mitigations)
    assert {"--target", "--auto-cast", "--optlevel", "--model-type"} <= set(read["arguments"])


@pytest.mark.parametrize(
    ("weights", "group", "asked", "cores"),
    [
        (110e6, "16", "auto", 16),
        (22.7e6, "16", "auto", 4),
        (1e6, "4", "auto", 1),
        (66e6, "8", "auto", 8),
        (1e6, "4", 3, 3),
    ],
)
def test_cores_of_a_pipeline(
    monkeypatch: pytest.MonkeyPatch, weights: float, group: str, asked: str | int, cores: int
) -> None:
    monkeypatch.setattr("marina.compiler.job.count_weights", lambda _: weights)
    fields = {"engine": "neuron", "mode": "pipeline", "core_groups": group, "neuron": {"pipeline_cores": asked}}
    assert engine_settings(make_spec({**LEAST, **fields}), Path())["pipeline_cores"] == cores


def test_a_pipeline_larger_than_its_group_is_refused() -> None:
    fields = {"engine": "neuron", "mode": "pipeline", "core_groups": "2", "neuron": {"pipeline_cores": 4}}
    with pytest.raises(SpecError, match="pipeline_cores: 4 is more than a core group has"):
        engine_settings(make_spec({**LEAST, **fields}), Path())


def test_masks_are_finite_only_meanwhile() -> None:
    import torch

    least = torch.finfo(torch.float32).min
    with finite_mask():
        assert torch.finfo(torch.float32).min == MASK
        assert torch.finfo(torch.float32).max == -least
    assert torch.finfo(torch.float32).min == least


@pytest.mark.long
def test_what_is_not_a_number_is_cured_and_told(host: Callable[..., Path], project: Project, add_tiny: AddTiny) -> None:
    host(NEURON_STANDIN_NAN="saturate")
    spec = read_spec(add_tiny("m", engine="neuronx", shapes={"exact": ["2x16"]}, neuronx={"optlevel": 1}))
    told: list[str] = []
    compiled = compile_model(spec, project, lambda what, *_: told.append(what))
    artifact = read_artifact(compiled.folder)
    assert artifact.compiler["mitigations"] == ["finite-mask", "saturate-infinity"]
    assert "--enable-saturate-infinity" in artifact.compiler["arguments"]
    assert artifact.compiler["checked"]
    assert "graph 2x16 once more, as outputs were not finite" in told
    (graph,) = artifact.graphs
    assert graph.parity is not None
    assert artifact.tolerance == pytest.approx(2 * graph.parity)
    (log,) = compiled.folder.parent.glob("*.compiler/2x16-finite-mask-saturate-infinity/model.log")
    assert log.read_text() == " ".join(artifact.compiler["arguments"])


def test_without_a_device_graphs_are_made_but_not_judged(
    host: Callable[..., Path], project: Project, add_tiny: AddTiny
) -> None:
    host(cores=0)
    spec = read_spec(add_tiny("m", engine="neuron", shapes={"exact": ["2x16"]}))
    artifact = read_artifact(compile_model(spec, project, no_progress).folder)
    assert [graph.parity for graph in artifact.graphs] == [None]
    assert artifact.compiler["mitigations"] == ["finite-mask"]
    assert not artifact.compiler["checked"]
    assert 1e-3 <= artifact.tolerance < 0.1


@pytest.mark.long
def test_what_the_compiler_does_not_know_is_an_error_unless_the_cpu_may_compute_it(
    host: Callable[..., Path], project: Project, add_tiny: AddTiny
) -> None:
    host(NEURON_STANDIN_LACKS="aten::tanh")
    path = add_tiny("m", engine="neuron", shapes={"exact": ["1x16"]})
    message = r"neuron cannot compile graph 1x16 .*does not support aten::tanh.*With neuron.fallback: true"
    with pytest.raises(CompileError, match=message):
        compile_model(read_spec(path), project, no_progress)
    folder = compile_model(read_spec(path, {"neuron": {"fallback": True}}), project, no_progress).folder
    (graph,) = json.loads((folder / "artifact.json").read_text())["graphs"]
    assert 0 < graph["cpu_share"] < 1


@pytest.mark.long
def test_graphs_that_were_finished_are_kept(host: Callable[..., Path], project: Project, add_tiny: AddTiny) -> None:
    """Killed while the others compile."""
    host(cores=0, NEURON_STANDIN_COMPILE_S="1")
    add_tiny("m", engine="neuronx", shapes={"exact": ["1x16", "1x32", "1x48"]})
    command = [sys.executable, "-m", "marina", "compile", "m"]
    first = subprocess.Popen(command, cwd=project.root, start_new_session=True)
    deadline = time.monotonic() + 120
    records = "m/*.partial/done/1x??-finite-mask.json"
    while not list(project.artifacts.glob(records)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    kept = {path.name: path.stat().st_mtime_ns for path in project.artifacts.glob(records)}
    assert 0 < len(kept) < 3
    subprocess.run(command, cwd=project.root, check=True)
    (folder,) = [path for path in project.artifacts.glob("m/*") if (path / "artifact.json").exists()]
    graphs = {path.name: path.stat().st_mtime_ns for path in (folder / "graphs").iterdir()}
    assert set(graphs) == {"1x16.pt", "1x32.pt", "1x48.pt"}
    assert all(graphs[name.replace("-finite-mask.json", ".pt")] < stamp for name, stamp in kept.items())
