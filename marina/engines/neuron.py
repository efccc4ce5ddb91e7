"""The engine neuron: compiles graphs for Inf1 with torch-neuron.

Every choice is passed to the compiler explicitly, and recorded; the compiler's defaults have changed between releases.
Source: the AWS Neuron SDK's reference of `torch_neuron.trace` and of neuron-cc's command line.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from packaging.specifiers import SpecifierSet
from pydantic import Field, field_validator, model_validator

from handlers.worker.engines.neuron import SDK
from handlers.worker.engines.packages import import_runtime
from handlers.worker.engines.releases import INF1, minor
from marina.engines.neuroncores.claims import NEURON
from marina.engines.neuroncores.engine import KILLED, NeuronEngine, Trace
from marina.engines.neuroncores.host import APT, Packages
from marina.engines.neuroncores.inf1_operators import describe_operators, doubtful, operators_of
from marina.engines.neuroncores.mitigations import MORE_EXACT, SATURATE
from marina.engines.neuroncores.pipeline import advised_cores, pipeline_cores
from marina.engines.values import (
    CORE_PER_WORKER,
    DATA_PARALLEL,
    PIPELINE,
    CompileOptions,
    DeviceMemory,
    EngineFields,
    Hosting,
)
from marina.errors import CompileError
from marina.fields import Section

CASTS = ("all", "all-fp16", "matmult", "matmult-bf16", "matmult-fp16")
FAST_MATH = (
    *("all", "none", *(f"fp32-cast-{cast}" for cast in CASTS)),
    *(f"fp32-cast-{cast} {layout}" for cast, layout in itertools.product(CASTS, ("fast-relayout", "no-fast-relayout"))),
)


class NeuronOptions(Section):
    """Compiling for Inf1 with torch-neuron and neuron-cc."""

    fast_math: str | None = "fp32-cast-matmult no-fast-relayout"
    """The compiler's `--fast-math`: which numbers are cast to 16 bits, and whether layout changes may be
    faster but less exact. From fast to exact: all, fp32-cast-matmult, fp32-cast-matmult
    no-fast-relayout, none."""

    fp32_cast: Literal["all", "all-fp16", "matmult", "matmult-bf16", "matmult-fp16"] | None = None
    """The older option `--fp32-cast`. Set fast_math to null to use it."""

    pipeline_cores: Literal["auto"] | int = "auto"
    """mode: pipeline: the cores that one graph spreads over. auto is 4 * round(weights / 20 million),
    as AWS advises, but at most the core group. If neuron-cc cannot compile a graph for so many, half of
    them are tried, and so on. A group holds as many copies of a graph as fit."""

    fallback: bool = True
    """Let operators that neuron-cc does not compile run on the CPU, as AWS does by default: among them are
    embeddings, which neuron-cc leaves to the CPU since it is faster there. false makes them an error."""

    max_cpu_share: float = Field(default=0.25, ge=0, le=1)
    """The largest share of a graph's operators that may run on the CPU; a graph with more is refused, as
    it would be slow. The embeddings of BERT-base are 3 of 467 operators."""

    separate_weights: bool = False
    """Keep weights outside of the compiled graph (`separate_weights`), as models with more than 1.9 GB of
    weights need. AWS documents no way to replace them on Inf1."""

    dynamic_batch: bool = False
    """Let graphs take other batch sizes too (`dynamic_batch_size`). Marina's own calls keep to the
    compiled shape. Needs fallback: false, as torch-neuron takes it only if all is compiled."""

    compiler_args: tuple[str, ...] = ()
    """More arguments for neuron-cc, for example [--enable-fast-context-switch]."""

    @field_validator("fast_math")
    @classmethod
    def _check_fast_math(cls, fast_math: str | None) -> str | None:
        if fast_math is not None and fast_math not in FAST_MATH:
            raise ValueError(f"use one of: {', '.join(FAST_MATH)}")
        return fast_math

    @field_validator("pipeline_cores")
    @classmethod
    def _check_pipeline_cores(cls, cores: str | int) -> str | int:
        if isinstance(cores, int) and cores < 1:
            raise ValueError("use auto, or a number of at least 1")
        return cores

    @model_validator(mode="after")
    def _check_combination(self) -> NeuronOptions:
        if (self.fast_math is None) == (self.fp32_cast is None):
            raise ValueError("give fast_math or fp32_cast, and null for the other")
        if self.dynamic_batch and self.fallback:  # aws-neuron-sdk #681 and #405
            raise ValueError("dynamic_batch needs fallback: false; it fails where embeddings run on the CPU")
        return self

    @property
    def precision(self) -> str:
        """The number format of matrix products."""
        return "fp16" if (self.fast_math or self.fp32_cast or "").partition(" ")[0].endswith("fp16") else "bf16"

    @property
    def casts_all(self) -> bool:
        """Whether more than matrix products is cast."""
        return (self.fast_math or f"fp32-cast-{self.fp32_cast}").startswith(("all", "fp32-cast-all"))


class Neuron(NeuronEngine):
    """torch-neuron and neuron-cc."""

    name = "neuron"
    packages = (SDK.runtime, SDK.compiler)
    stack = "inf1"
    sdk = SDK
    pythons = ((3, 8), (3, 10))
    python = f"python{INF1.python}"
    host = Packages(
        instances=("inf1",),
        driver=SpecifierSet(INF1.drivers),
        install_driver=f"{APT} 'aws-neuronx-dkms={minor(INF1.driver)}'",
        install_runtime="",  # torch-neuron has its own
        limits={
            "numpy": (SpecifierSet("<1.24"), "neuron-cc's TensorFlow uses names that numpy 1.24 removed"),
            "protobuf": (SpecifierSet("<3.20.2"), "neuron-cc's messages need an older one"),
        },
    )
    options = NeuronOptions
    modes = (CORE_PER_WORKER, PIPELINE, DATA_PARALLEL)
    more_exact = "neuron.fast_math: none"
    claims = NEURON
    # AWS Neuron's note on bucketing for Inf1
    memories = (DeviceMemory("Inferentia 1", ("inf1",), 2e9, bytes_a_weight=2),)
    hosting = Hosting(
        image=INF1.image,
        instance="ml.inf1.xlarge",
        families=("inf1",),
        cores_a_device=4,
    )

    def check(self, fields: EngineFields) -> None:
        super().check(fields)
        if fields.precision == "f32" and fields.names_precision:
            raise ValueError("precision: f32 is not to be had on Inf1, whose products are in 16 bits; leave it out")

    def precision(self, fields: EngineFields, mitigations: Sequence[str]) -> str:
        return "bf16" if MORE_EXACT in mitigations else str(fields.options.precision)

    def settings(self, fields: EngineFields, count_weights: Callable[[], int]) -> dict[str, Any]:
        options = fields.options.model_dump(mode="json")
        if fields.mode != PIPELINE:
            return {**options, "pipeline_cores": 1}
        formula = advised_cores(count_weights()) if fields.options.pipeline_cores == "auto" else None
        return {**options, "pipeline_cores": pipeline_cores(fields, formula), "advised_pipeline_cores": formula}

    def arguments(self, settings: Mapping[str, Any], mitigations: Sequence[str]) -> list[str]:
        """The arguments of neuron-cc."""
        if MORE_EXACT in mitigations:
            cast = ["--fast-math", "none"]
        elif settings["fp32_cast"]:
            cast = ["--fp32-cast", settings["fp32_cast"]]
        else:
            cast = ["--fast-math", *settings["fast_math"].split()]
        saturate = ["--enable-saturate-infinity"] if SATURATE in mitigations else []
        cores = ["--neuroncore-pipeline-cores", str(settings["pipeline_cores"])]
        return [*cast, *cores, *saturate, *settings["compiler_args"]]

    def trace(self, request: Trace) -> tuple[Any, dict[str, Any]]:
        """The traced module, the operators in it that run on the CPU, and the cores that it spreads over."""
        cores = request.settings["pipeline_cores"]
        while True:
            try:
                traced, notes = self._trace(request._replace(settings={**request.settings, "pipeline_cores": cores}))
            except CompileError:
                raise
            except Exception as error:  # neuron-cc raises several kinds where a pipeline is too long
                if cores == 1 or any(sign in str(error) for sign in KILLED):
                    raise
                print(f"no pipeline over {cores} cores: {error}", flush=True)
                cores //= 2
            else:
                return traced, {**notes, "pipeline_cores": cores}

    def _trace(self, request: Trace) -> tuple[Any, dict[str, Any]]:
        torch_neuron = import_runtime(SDK)
        import torch

        settings, inputs = request.settings, request.inputs
        optional_arguments = {"dynamic_batch_size": "dynamic_batch", "separate_weights": "separate_weights"}
        traced = torch_neuron.trace(
            request.module,
            inputs,
            compiler_args=self.arguments(settings, request.mitigations),
            compiler_workdir=str(request.workdir),
            fallback=settings["fallback"],
            **{argument: True for argument, name in optional_arguments.items() if settings[name]},
        )
        on_cpu = operators_of(traced) if settings["fallback"] else Counter()
        if not on_cpu:
            return traced, {"cpu_share": 0.0, "cpu_operators": {}}
        all_operators = operators_of(torch.jit.trace(request.module, inputs, check_trace=False))
        share = round(min(1.0, on_cpu.total() / all_operators.total()), 4)
        if share > settings["max_cpu_share"]:
            message = (
                f"{share:.0%} of the operators would run on the CPU ({describe_operators(on_cpu)}), and "
                f"neuron.max_cpu_share is {settings['max_cpu_share']:.0%}; raise it if that is fast enough"
            )
            if settings["pipeline_cores"] > 1 and on_cpu.keys() - doubtful(on_cpu).keys():
                # operators that AWS lists are there because neuron-cc failed, which a shorter pipeline may change
                raise RuntimeError(message)
            raise CompileError(message)
        return traced, {"cpu_share": share, "cpu_operators": dict(sorted(on_cpu.items()))}

    def record(
        self, settings: Mapping[str, Any], options: CompileOptions, checked: bool, notes: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """With the cores of the longest pipeline that was compiled, which a worker's group must have."""
        cores = max(note["pipeline_cores"] for note in notes)
        record = super().record({**settings, "pipeline_cores": cores}, options, checked, notes)
        return {**record, "asked_pipeline_cores": settings["pipeline_cores"]}

    def remarks(self, compiler: Mapping[str, Any], graphs: Sequence[Mapping[str, Any]]) -> list[str]:
        lines = super().remarks(compiler, graphs)
        cpu_graphs = [graph for graph in graphs if graph["cpu_share"]]
        if cpu_graphs:
            worst = max(cpu_graphs, key=lambda graph: float(graph["cpu_share"]))
            lines.append(
                f"up to {worst['cpu_share']:.1%} of a graph's operators run on the CPU: "
                f"{describe_operators(worst['cpu_operators'])}"
            )
        requested_cores = compiler["asked_pipeline_cores"]
        shorter_pipelines = [
            f"{graph['shape']} over {graph['pipeline_cores']}"
            for graph in graphs
            if graph["pipeline_cores"] < requested_cores
        ]
        if shorter_pipelines:
            lines.append(
                f"neuron-cc could not spread every graph over {requested_cores} cores: {', '.join(shorter_pipelines)}"
            )
        if compiler.get("advised_pipeline_cores") == 0:
            lines.append(
                "AWS's formula gives no pipeline for so few weights: every graph has one core, and the group holds "
                "copies of it. mode: core-per-worker suits this model better"
            )
        return lines

    def advice(self, settings: Mapping[str, Any], log: str) -> str:
        if not settings["fallback"] and any(name in log for name in ("AttributeError", "NotImplementedError")):
            return ". With neuron.fallback: true what neuron-cc does not know runs on the CPU"
        if "DecodeError" in log:  # a graph of more than 2 GB does not fit into a protobuf message
            return ". A model with more than 1.9 GB of weights needs neuron.separate_weights: true"
        return super().advice(settings, log)

    def hardware_trials(self, cores: int, shape: str, target: str) -> dict[str, dict[str, Any]]:
        single_graph, group_cores = {"shapes": {"exact": [shape]}}, min(4, cores)
        pipeline = {**single_graph, "core_groups": str(group_cores), "mode": PIPELINE}
        return {
            CORE_PER_WORKER: {"core_groups": ",".join(["1"] * cores)},
            "exact": {**single_graph, "neuron": {"fast_math": "none"}},
            "older-cast": {**single_graph, "neuron": {"fast_math": None, "fp32_cast": "matmult-fp16"}},
            "separate-weights": {**single_graph, "neuron": {"separate_weights": True}},
            PIPELINE: {**pipeline, "neuron": {"pipeline_cores": group_cores}},
            "pipeline-copies": {**pipeline, "neuron": {"pipeline_cores": 1}},
            DATA_PARALLEL: {**single_graph, "core_groups": str(cores), "mode": DATA_PARALLEL},
        }

    def sdk_commands(self, target: str) -> dict[str, Sequence[str]]:
        return {
            "import": (sys.executable, "-c", "import torch_neuron; print(torch_neuron.__name__)"),
            "list-operators": (SDK.compiler, "list-operators", "--framework", "XLA"),
        }


ENGINE = Neuron()
