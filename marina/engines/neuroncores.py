"""What the two Neuron engines share outside of the server."""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from handlers.worker.engines.packages import NeuronSdk, check_installed, check_versions, installed, is_placeholder
from handlers.worker.errors import ArtifactError, PlacementError
from handlers.worker.placement import NEURONCORES
from handlers.worker.placement.discovery import DEVICES, neuron_cores
from handlers.worker.placement.groups import parse_core_groups
from handlers.worker.placement.leases import leases_folder, read_holders
from handlers.worker.values import Row, Shape
from marina.engines.base import CORE_PER_WORKER, CompileOptions, Engine, EngineFields, GraphFiles
from marina.engines.mitigations import FINITE_MASK, LADDER, finite_mask
from marina.engines.model import ExportedModel
from marina.errors import CompileError
from marina.findings import Finding, fails, note, ok

DRIVER_VERSION = Path("/sys/module/neuron/version")


class NeuronEngine(Engine):
    """An engine whose compiler and runtime are AWS's Neuron SDK.

    Attributes:
        sdk: its packages.
        more_packages: that must not be placeholders either.
        pythons: the oldest and the newest Python that the SDK's packages are built for.
    """

    sdk: NeuronSdk
    more_packages: tuple[str, ...] = ()
    pythons: tuple[tuple[int, int], tuple[int, int]]
    attention = "eager"  # made of operators that the compilers document
    compiles_apart = True
    tolerance = 1e-3  # what optimum-neuron allows BERT

    @abstractmethod
    def arguments(self, settings: Mapping[str, Any], mitigations: Sequence[str]) -> list[str]:
        """The command line of the compiler."""

    @abstractmethod
    def trace(
        self,
        model: ExportedModel,
        shape: Shape,
        settings: Mapping[str, Any],
        mitigations: Sequence[str],
        workdir: Path,
    ) -> tuple[Any, dict[str, Any]]:
        """Compile one shape; returns the traced module, and what is to be recorded of it."""

    def check(self, fields: EngineFields) -> None:
        if fields.mode != CORE_PER_WORKER and not fields.core_groups:
            raise ValueError(f"mode: {fields.mode} needs core_groups, for example 4")
        if fields.mode == CORE_PER_WORKER and fields.core_groups and parse_core_groups(fields.core_groups)[0] > 1:
            raise ValueError(
                "mode: core-per-worker gives each worker one core; write core_groups as 1,1,1,1, or choose another mode"
            )

    def casts_all(self, fields: EngineFields) -> bool:
        return bool(fields.options.casts_all)

    def compile_options(self, precision: str, runs: bool) -> list[CompileOptions]:
        """Where outputs cannot be seen, the first mitigation is taken beforehand; it costs nothing."""
        return [CompileOptions(precision, mitigations) for mitigations in (LADDER if runs else LADDER[1:2])]

    def open_compiler(
        self, model: ExportedModel, settings: Mapping[str, Any], _: Sequence[Row], workdir: Path
    ) -> _NeuronCompiler:
        return _NeuronCompiler(self, model, settings, workdir)

    def record(self, settings: Mapping[str, Any], options: CompileOptions, checked: bool) -> dict[str, Any]:
        arguments = self.arguments(settings, options.mitigations)
        return {**settings, "arguments": arguments, "mitigations": options.mitigations, "checked": checked}

    def package_versions(self, precisions: Sequence[str]) -> dict[str, str]:
        try:
            check_installed(self.sdk)
        except ArtifactError as error:
            raise CompileError(str(error)) from None
        return super().package_versions(precisions)

    def check_versions(self, compiled: Mapping[str, str]) -> None:
        if installed(self.sdk.runtime) is None:  # how to install it depends on the Python here
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
            here = installed(name)
            if here and not is_placeholder(name):
                findings.append(ok(name, here))
            elif here:
                findings.append(fails(name, f"{here} is a placeholder from PyPI, whose import raises", self._install()))
            elif name == self.sdk.compiler:
                findings.append(note(name, "not installed; it is needed for compiling only", self._install()))
            else:
                findings.append(fails(name, "not installed", self._install()))
        return findings

    def check_host_cores(self) -> list[Finding]:
        """The driver, its cores, and who holds them."""
        devices = len([path for path in DEVICES.glob("neuron*") if path.name.removeprefix("neuron").isdecimal()])
        version = DRIVER_VERSION.read_text().strip() if DRIVER_VERSION.is_file() else "of unknown version"
        driver = ok("Neuron driver", f"{version}, {devices} devices")
        if not devices:
            fix = "on an instance install aws-neuronx-dkms; in a container pass --device=/dev/neuron0"
            driver = note("Neuron driver", "no /dev/neuron device", fix)
        try:
            cores = neuron_cores()
            usable = ok("NeuronCores", f"{len(cores)}: {','.join(str(core) for core in cores)}")
        except PlacementError as error:
            usable = fails("NeuronCores", "none", str(error))
        held = read_holders(leases_folder(NEURONCORES.leases))
        names = ", ".join(map(str, held))
        return [
            driver,
            usable,
            *([note("NeuronCores in use", names, "a model needs cores that are free")] if held else []),
        ]

    def _install(self) -> str:
        """How to get the packages, with another Python if need be."""
        oldest, newest = self.pythons
        if oldest <= sys.version_info[:2] <= newest:
            return self.sdk.install
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        return f"there is none for Python {here}: make setup PYTHON=python3.{newest[1]} STACK={self.stack}"


class _NeuronCompiler:
    """Traces one graph after the other."""

    def __init__(self, engine: NeuronEngine, model: ExportedModel, settings: Mapping[str, Any], workdir: Path) -> None:
        self._engine = engine
        self._model = model
        self._settings = settings
        self._workdir = workdir

    def compile(self, shape: Shape, options: CompileOptions, folder: Path) -> GraphFiles:
        graph = folder / "graphs" / f"{shape}.pt"
        with finite_mask() if FINITE_MASK in options.mitigations else nullcontext():
            traced, notes = self._engine.trace(self._model, shape, self._settings, options.mitigations, self._workdir)

        import torch

        partial = graph.with_suffix(f".{os.getpid()}.partial")  # an earlier run may have left one at work
        torch.jit.save(traced, str(partial))
        partial.replace(graph)
        return GraphFiles(graph, None, notes)


def count_operators(module: Any) -> int:
    """The computing operators of a TorchScript module; a compiled part of it counts for none."""
    return sum(_count(node) for node in module.inlined_graph.nodes())


def _count(node: Any) -> int:
    inner = sum(_count(child) for block in node.blocks() for child in block.nodes())
    return int(inner) + int(node.kind().startswith("aten::"))
