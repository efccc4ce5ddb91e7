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
from pydantic import ValidationError

from handlers.worker.archive.artifact import read_artifact
from handlers.worker.engines.releases import TARGETS
from handlers.worker.errors import ArtifactError
from marina.compiler import compile_model
from marina.compiler.job import engine_settings
from marina.engines import engine_of, neuron, neuronx
from marina.engines.neuron import CASTS, FAST_MATH, NeuronOptions
from marina.engines.neuroncores.engine import NeuronEngine
from marina.engines.neuroncores.mitigations import LADDER, MASK, finite_mask
from marina.engines.neuronx import NeuronxOptions
from marina.errors import CompileError, SpecError
from marina.project import Project
from marina.spec import make_spec, read_spec
from tests.conftest import no_progress, save_tiny_model
from tests.standin import PACKAGES, PROGRAMS, standin_environment

AddTiny = Callable[..., Path]
LEAST: dict[str, Any] = {"name": "m", "task": "text-classification", "source": {"path": "x"}}
INF1 = st.one_of(
    st.builds(NeuronOptions, fast_math=st.sampled_from(FAST_MATH)),
    st.builds(NeuronOptions, fast_math=st.none(), fp32_cast=st.sampled_from(CASTS)),
)
INF2 = st.builds(
    NeuronxOptions,
    target=st.sampled_from(TARGETS),
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
        patch.setenv("PATH", str(PROGRAMS), prepend=os.pathsep)
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
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(neuronx.PLATFORM, "inf2")
        import torch_neuronx

    read = torch_neuronx._read(neuronx.ENGINE.arguments(options.model_dump(mode="json"), mitigations))
    assert read["saturates"] == ("saturate-infinity" in mitigations and options.target != "trn2")
    assert (read["casts"] == "none") == (options.auto_cast == "none" or "more-exact" in mitigations)
    assert {"--target", "--auto-cast", "--optlevel", "--model-type"} <= set(read["arguments"])


@pytest.mark.parametrize(
    ("weights", "group", "asked", "cores"),
    [
        (110_000_000, "16", "auto", 16),
        (22_700_000, "16", "auto", 4),
        (1_000_000, "4", "auto", 1),
        (66_000_000, "8", "auto", 8),
        (1_000_000, "4", 3, 3),
    ],
)
def test_cores_of_a_pipeline(weights: int, group: str, asked: str | int, cores: int) -> None:
    fields = {"engine": "neuron", "mode": "pipeline", "core_groups": group, "neuron": {"pipeline_cores": asked}}
    assert engine_settings(make_spec({**LEAST, **fields}), lambda: weights)["pipeline_cores"] == cores


def test_a_pipeline_larger_than_its_group_is_refused() -> None:
    fields = {"engine": "neuron", "mode": "pipeline", "core_groups": "2", "neuron": {"pipeline_cores": 4}}
    with pytest.raises(SpecError, match="pipeline_cores: 4 is more than a core group has"):
        engine_settings(make_spec({**LEAST, **fields}), lambda: 1_000_000)


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


def compiled(path: Path, project: Project, **overrides: Any) -> tuple[dict[str, Any], list[str]]:
    """The `artifact.json` of a spec, and what a person should know of it."""
    folder = compile_model(read_spec(path, overrides), project, no_progress).folder
    document: dict[str, Any] = json.loads((folder / "artifact.json").read_text())
    return document, engine_of(document["engine"]).remarks(document["compiler"], document["graphs"])


@pytest.mark.long
def test_what_the_compiler_does_not_know_runs_on_the_cpu_up_to_a_limit(
    host: Callable[..., Path], project: Project, add_tiny: AddTiny
) -> None:
    """Embeddings always do."""
    host(cores=0)
    path = add_tiny("m", engine="neuron", shapes={"exact": ["1x16"]})
    document, remarks = compiled(path, project)
    (graph,) = document["graphs"]
    count = graph["cpu_operators"].pop("aten::embedding")
    assert (graph["cpu_operators"], count >= 3) == ({}, True)
    assert 0 < graph["cpu_share"] < 0.25
    share = f"{graph['cpu_share']:.1%}"
    assert remarks == [f"up to {share} of a graph's operators run on the CPU: {count} x aten::embedding"]
    strict = {"max_cpu_share": 0.01}
    with pytest.raises(CompileError, match=r"would run on the CPU \(\d x aten::embedding\), and neuron.max_cpu"):
        compile_model(read_spec(path, {"neuron": strict}), project, no_progress)
    host(cores=0, NEURON_STANDIN_LACKS="aten::tanh")
    message = r"neuron cannot compile graph 1x16 .*does not support .*aten::tanh.*With neuron.fallback: true"
    with pytest.raises(CompileError, match=message):
        compile_model(read_spec(path, {"neuron": {"fallback": False}}), project, no_progress)


@pytest.mark.long
def test_a_pipeline_that_does_not_compile_is_made_smaller(
    host: Callable[..., Path], project: Project, add_tiny: AddTiny
) -> None:
    host(cores=0, NEURON_STANDIN_PIPELINE="2")
    pipeline = {"engine": "neuron", "mode": "pipeline", "core_groups": "8", "shapes": {"exact": ["1x16"]}}
    document, remarks = compiled(add_tiny("m", **pipeline, neuron={"pipeline_cores": 8}), project)
    compiler = document["compiler"]
    assert (compiler["asked_pipeline_cores"], compiler["pipeline_cores"]) == (8, 2)
    assert document["graphs"][0]["pipeline_cores"] == 2
    assert remarks[1] == "neuron-cc could not spread every graph over 8 cores: 1x16 over 2"
    document, remarks = compiled(add_tiny("auto", **pipeline), project)
    assert document["compiler"]["advised_pipeline_cores"] == 0
    assert remarks[1].startswith("AWS's formula gives no pipeline for so few weights")


@pytest.mark.long
def test_a_second_model_of_the_same_architecture_reuses_graphs(
    host: Callable[..., Path], project: Project, add_tiny: AddTiny
) -> None:
    """Its own weights are proven on a core."""
    host()
    separate = {"engine": "neuronx", "shapes": {"exact": ["1x16", "2x32"]}, "neuronx": {"inline_weights": False}}
    first, _ = compiled(add_tiny("one", **separate), project)
    path = add_tiny("two", **separate)
    labels = {"id2label": dict(enumerate("abc")), "label2id": {label: index for index, label in enumerate("abc")}}
    save_tiny_model(project.root / "other", "text-classification", seed=7, **labels)
    source = {"source": {"path": "other"}}
    second, _ = compiled(path, project, **source)
    assert [graph["weights"] for graph in first["graphs"]] == [None, None]
    assert [graph["weights"] for graph in second["graphs"]] == ["weights.safetensors"] * 2
    assert all("reused" in graph and graph["parity"] is not None for graph in second["graphs"])
    assert second["compiler"]["checked"]
    assert {graph["sha256"] for name, graph in first["files"].items() if name.startswith("graphs/")} == {
        graph["sha256"] for name, graph in second["files"].items() if name.startswith("graphs/")
    }
    # a graph that is damaged is compiled again
    for stored in (project.root / "build" / "graphs").iterdir():
        stored.unlink()
        stored.write_bytes(b"half of a graph")
    again, _ = compiled(add_tiny("three", **separate), project)
    assert not any("reused" in graph for graph in again["graphs"])
    # other arguments, another computation or other sizes are other graphs
    changed, _ = compiled(path, project, **source, neuronx={"inline_weights": False, "optlevel": 1})
    assert not any("reused" in graph for graph in changed["graphs"])


@pytest.mark.long
def test_graphs_that_do_not_fit_into_device_memory_are_refused(
    host: Callable[..., Path], project: Project, add_tiny: AddTiny
) -> None:
    host(NEURON_STANDIN_MEMORY="100000")
    spec = read_spec(add_tiny("m", engine="neuron", shapes={"exact": ["1x16", "2x16"]}))
    with pytest.raises(ArtifactError, match="Allocation Failure; the graphs need more memory than the cores"):
        compile_model(spec, project, no_progress)


@pytest.mark.parametrize(
    ("engine", "log", "advice"),
    [
        (neuron.ENGINE, "INFO:Neuron:Compile command returned: -9", "The compiler was killed"),
        (neuronx.ENGINE, "[F137] neuronx-cc was forcibly killed - This most commonly", "The compiler was killed"),
        (neuron.ENGINE, "google.protobuf.message.DecodeError: Error parsing", "needs neuron.separate_weights: true"),
        (neuronx.ENGINE, "any other error", ""),
    ],
)
def test_advice_for_what_compilers_print(engine: NeuronEngine, log: str, advice: str) -> None:
    assert advice in engine.advice({"fallback": True}, log)
    assert bool(engine.advice({"fallback": True}, log)) == bool(advice)


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


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"mode": "data-parallel", "core_groups": "2"}, "packed shapes need mode: core-per-worker or pipeline"),
        ({"neuronx": {"dynamic_batch": True}}, "packed shapes need dynamic_batch: false"),
    ],
)
def test_packed_shapes_need_outputs_of_their_own_number(fields: dict[str, Any], why: str) -> None:
    base = {"name": "m", "task": "text-classification", "source": {"path": "m"}, "engine": "neuronx"}
    make_spec({**base, **fields, "shapes": {"exact": ["1x32"]}})
    with pytest.raises(ValidationError, match=why):
        make_spec({**base, **fields, "shapes": {"packed": ["1x32"]}})
