"""Code shared by the two Neuron engines outside the server."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from handlers.worker.engines.packages import (
    NeuronSdk,
    check_installed,
    check_versions,
    find_program,
    installed,
    is_placeholder,
    missing_program,
)
from handlers.worker.errors import ArtifactError
from handlers.worker.placement.discovery import instance_type
from handlers.worker.placement.groups import parse_core_groups
from handlers.worker.placement.limits import free_memory
from handlers.worker.values import Row, Shape
from marina.engines.base import Engine
from marina.engines.model import ExportedModel, example_inputs
from marina.engines.neuroncores.host import (
    Packages,
    check_device_memory,
    check_limits,
    check_machine,
    check_memory,
    check_programs,
)
from marina.engines.neuroncores.mitigations import FINITE_MASK, LADDER, finite_mask
from marina.engines.values import CORE_PER_WORKER, DATA_PARALLEL, CompileOptions, EngineFields, GraphFiles
from marina.errors import CompileError
from marina.files import replacing
from marina.findings import Finding, fails, note, ok

# how logs of the compilers show that the kernel killed them: neuron-cc (#439, #287) and neuronx-cc (F137)
KILLED = ("Compile command returned: -9", "SIG_KILL", "BrokenProcessPool", "F137", "forcibly killed")


class Trace(NamedTuple):
    """One graph to compile: a model in one shape, the compiler's settings, mitigations, and a folder for its logs."""

    model: ExportedModel
    shape: Shape
    settings: Mapping[str, Any]
    mitigations: Sequence[str]
    workdir: Path

    @property
    def module(self) -> Any:
        """The module to trace."""
        return self.model.module_for(self.shape)

    @property
    def inputs(self) -> tuple[Any, ...]:
        """Tensors to trace it with."""
        return example_inputs(self.model, self.shape)


class NeuronEngine(Engine):
    """An engine whose compiler and runtime are AWS's Neuron SDK.

    Attributes:
        sdk: its packages.
        host: the needs of an instance besides these packages.
        more_packages: more packages that must not be placeholders.
        pythons: the oldest and the newest Python version that the SDK's packages are built for.
        python: the Python to advise.
    """

    sdk: NeuronSdk
    host: Packages
    more_packages: tuple[str, ...] = ()
    pythons: tuple[tuple[int, int], tuple[int, int]]
    python: str
    attention = "eager"  # consists of operators that the compilers document
    compiles_apart = True
    tolerance = 1e-3  # optimum-neuron's tolerance for BERT

    @abstractmethod
    def arguments(self, settings: Mapping[str, Any], mitigations: Sequence[str]) -> list[str]:
        """The compiler's command-line arguments."""

    @abstractmethod
    def trace(self, request: Trace) -> tuple[Any, dict[str, Any]]:
        """Compile one graph; returns the traced module and additional fields to record for it."""

    def check(self, fields: EngineFields) -> None:
        if fields.mode != CORE_PER_WORKER and not fields.core_groups:
            raise ValueError(f"mode: {fields.mode} needs core_groups, for example 4")
        if fields.mode == CORE_PER_WORKER and fields.core_groups and max(parse_core_groups(fields.core_groups)) > 1:
            raise ValueError(
                "mode: core-per-worker gives each worker one core; write core_groups as 1,1,1,1, or choose another mode"
            )

    def refuses_packed(self, fields: EngineFields) -> str:
        """The SDK gives back as many outputs as a call has rows, and a packed one has more."""
        if fields.mode == DATA_PARALLEL:
            return "packed shapes need mode: core-per-worker or pipeline"
        return "packed shapes need dynamic_batch: false" if fields.options.dynamic_batch else ""

    def casts_all(self, fields: EngineFields) -> bool:
        return bool(fields.options.casts_all)

    def compile_options(self, precision: str, runs: bool) -> list[CompileOptions]:
        """If graphs cannot be run, the first mitigation is applied in advance; it has no cost."""
        return [CompileOptions(precision, mitigations) for mitigations in (LADDER if runs else LADDER[1:2])]

    def open_compiler(
        self, model: ExportedModel, settings: Mapping[str, Any], _: Sequence[Row], workdir: Path
    ) -> _NeuronCompiler:
        return _NeuronCompiler(self, model, settings, workdir)

    def record(
        self, settings: Mapping[str, Any], options: CompileOptions, checked: bool, notes: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        arguments = self.arguments(settings, options.mitigations)
        return {**settings, "arguments": arguments, "mitigations": options.mitigations, "checked": checked}

    def remarks(self, compiler: Mapping[str, Any], graphs: Sequence[Mapping[str, Any]]) -> list[str]:
        reused = sum("reused" in graph for graph in graphs)
        description = "were compiled for another model, and got the weights of this one"
        return [f"{reused} of {len(graphs)} graphs {description}"] if reused else []

    def package_versions(self, precisions: Sequence[str]) -> dict[str, str]:
        try:
            check_installed(self.sdk)
        except ArtifactError as error:
            raise CompileError(str(error)) from None
        return super().package_versions(precisions)

    def advice(self, settings: Mapping[str, Any], log: str) -> str:
        if any(sign in log for sign in KILLED):
            return (
                ". The compiler was killed, most likely for want of memory: compile on a machine with 16 GiB or more, "
                "for example c5.4xlarge, and copy build/artifacts, or use fewer processes at once"
            )
        return ""

    def check_versions(self, compiled: Mapping[str, str]) -> None:
        if installed(self.sdk.runtime) is None:  # how to install it depends on this Python's version
            raise ArtifactError(f"the engine {self.name!r} needs {self.sdk.runtime}, which is not installed")
        check_versions(self.sdk, compiled)

    def is_installed(self) -> bool:
        return installed(self.sdk.runtime) is not None and not is_placeholder(self.sdk.runtime)

    def check_host_packages(self) -> list[Finding]:
        findings = [
            fails(name, "a placeholder from PyPI, whose import raises", self._install())
            for name in self.more_packages
            if is_placeholder(name)
        ]
        for name in (self.sdk.runtime, self.sdk.compiler):
            installed_version = installed(name)
            if installed_version and not is_placeholder(name):
                findings.append(ok(name, installed_version))
            elif installed_version:
                findings.append(
                    fails(name, f"{installed_version} is a placeholder from PyPI, whose import raises", self._install())
                )
            elif name == self.sdk.compiler:
                findings.append(note(name, "not installed; it is needed for compiling only", self._install()))
            else:
                findings.append(fails(name, "not installed", self._install()))
        compiles = [check_memory(free_memory())] if installed(self.sdk.compiler) else []
        return [*findings, *check_programs(self.sdk), *check_limits(self.host), *compiles]

    def check_host_cores(self) -> list[Finding]:
        memory = self.memory_on(instance_type().partition(".")[0])
        in_use = check_device_memory(memory) if memory else []
        return [*check_machine(self.sdk, self.host), *in_use]

    def _install(self) -> str:
        """How to install the packages, with another Python version if necessary."""
        oldest, newest = self.pythons
        if oldest <= sys.version_info[:2] <= newest:
            return self.sdk.install
        python_version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return f"there is none for Python {python_version}: make setup PYTHON={self.python} STACK={self.stack}"


class _NeuronCompiler:
    """Traces one graph after another."""

    def __init__(self, engine: NeuronEngine, model: ExportedModel, settings: Mapping[str, Any], workdir: Path) -> None:
        self._engine = engine
        self._model = model
        self._settings = settings
        self._workdir = workdir

    def compile(self, shape: Shape, options: CompileOptions, folder: Path) -> GraphFiles:
        graph = folder / "graphs" / f"{shape}.pt"
        if find_program(self._engine.sdk.compiler) is None:
            raise CompileError(missing_program(self._engine.sdk, self._engine.sdk.compiler))
        with finite_mask() if FINITE_MASK in options.mitigations else nullcontext():
            request = Trace(self._model, shape, self._settings, options.mitigations, self._workdir)
            traced, notes = self._engine.trace(request)

        import torch

        with replacing(graph, several=True) as partial:
            torch.jit.save(traced, str(partial))
        return GraphFiles(graph, None, notes)
