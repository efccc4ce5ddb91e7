"""What an engine answers outside of the server, and what most engines answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from handlers.worker.engines import engine_module
from handlers.worker.engines.packages import installed
from handlers.worker.errors import PlacementError
from handlers.worker.placement import Cores, core_groups
from handlers.worker.placement.discovery import allowed_cores, cpu_cores
from handlers.worker.placement.groups import possible_groups
from handlers.worker.placement.leases import leases_folder, read_holders
from handlers.worker.values import Row, Shape
from marina.engines.model import ExportedModel
from marina.errors import CompileError
from marina.fields import Section
from marina.findings import Finding, fails, ok

CORE_PER_WORKER, PIPELINE, DATA_PARALLEL = "core-per-worker", "pipeline", "data-parallel"


class NoOptions(Section):
    """Of an engine that has none."""


class EngineFields(NamedTuple):
    """What a spec says that its engine must know.

    Attributes:
        precision: "f32", "bf16", "int8" or "auto".
        names_precision: whether the spec names it.
        names_examples: whether it names a file of examples.
        mode: what a worker does with its core group.
        core_groups: as the spec writes them, or None.
        options: the spec's section for the engine, of its type `Engine.options`.
    """

    precision: str
    names_precision: bool
    names_examples: bool
    mode: str
    core_groups: str | None
    options: Any


class CompileOptions(NamedTuple):
    """How a graph is to compute: its precision, and what is done so that its outputs are finite.

    mitigations are names that the engine gave in `Engine.compile_options`.
    """

    precision: str
    mitigations: tuple[str, ...] = ()

    def file_name(self, stem: str) -> str:
        """The name of something that was made with them."""
        return "-".join([stem, *self.mitigations])


class GraphFiles(NamedTuple):
    """The files that a compiler wrote for one graph, and what is to be recorded of it.

    Several graphs may name the same weights.
    """

    graph: Path
    weights: Path | None
    notes: Mapping[str, Any] = {}


class GraphCompiler(Protocol):
    """A model prepared for one engine."""

    def compile(self, shape: Shape, options: CompileOptions, folder: Path) -> GraphFiles:
        """Write the graph of one shape under `folder`, its code under `folder/graphs`."""


class DeviceMemory(NamedTuple):
    """What one core of a device has for all its graphs, in bytes; key is the device's name for programs."""

    device: str
    key: str
    bytes_a_core: float


class Engine(ABC):
    """One engine. The attributes are what it says of itself; those with a value here are what CPU engines say.

    Attributes:
        name: as specs write it.
        packages: whose versions decide what a graph computes, beside those that every model needs.
        serving_packages: that a worker imports.
        stack: the file in requirements/ that installs them.
        options: the type of the spec's section of the engine's name.
        precisions: that a spec may name.
        modes: that a spec may name.
        attention: transformers' implementation of attention to export models with; None for its own choice.
        portable: whether it takes whatever PyTorch can trace, so that it may be advised where others fail.
        compiles_apart: whether compiling takes minutes and gigabytes for each graph. Then each is compiled in a process
            of its own, several at once; finished ones are kept when another fails, and none is made only to try a
            precision.
        tolerance: what outputs may differ by in f32 where a spec leaves it open; None for the spec's default.
        more_exact: what to write into a spec whose precision changes answers.
        memory: of its device, where graphs must fit into it.
    """

    name: str
    packages: tuple[str, ...]
    serving_packages: tuple[str, ...] = ()
    stack = "cpu"
    options: type[Section] = NoOptions
    precisions: tuple[str, ...] = ("f32", "auto")
    modes: tuple[str, ...] = (CORE_PER_WORKER,)
    attention: str | None = None
    portable = False
    compiles_apart = False
    tolerance: float | None = None
    more_exact = "precision: auto"
    memory: DeviceMemory | None = None

    @property
    def cores(self) -> Cores:
        """The kind of cores that its graphs run on."""
        return engine_module(self.name).CORES

    def check(self, fields: EngineFields) -> None:  # noqa: B027  most engines refuse nothing
        """Refuse what does not go together in a spec, with a ValueError."""

    def candidates(self, fields: EngineFields, calibrated: bool) -> tuple[str, ...]:
        """The precisions to try, the smallest first; `calibrated` says whether there are texts to calibrate int8 on."""
        return (self.precision(fields, ()),)

    def precision(self, fields: EngineFields, mitigations: Sequence[str]) -> str:
        """The precision that a spec names, f32 for auto; with the mitigations taken."""
        return "f32" if fields.precision == "auto" else fields.precision

    def casts_all(self, fields: EngineFields) -> bool:
        """Whether a lower precision is that of all numbers, or of products alone."""
        return False

    def settings(self, fields: EngineFields, count_weights: Callable[[], int]) -> dict[str, Any]:
        """The settings of its compiler, with everything open settled: part of an artifact's key.

        Raises ValueError where that cannot be.

        Args:
            fields: of the spec.
            count_weights: how many numbers the model's weights hold; reads their files.
        """
        return {}

    def compile_options(self, precision: str, runs: bool) -> list[CompileOptions]:
        """What to compile with, one after the other, until outputs are finite; `runs` says whether that can be seen."""
        return [CompileOptions(precision)]

    @abstractmethod
    def open_compiler(
        self, model: ExportedModel, settings: Mapping[str, Any], calibration: Sequence[Row], workdir: Path
    ) -> GraphCompiler:
        """Prepare a model.

        Args:
            model: loaded.
            settings: from `settings`.
            calibration: rows like those that will be served, for int8.
            workdir: for what compilers leave behind.

        Raises:
            ImportError: a package is not installed.
            Exception: whatever the engine raises over a model that it cannot take.
        """

    def record(self, settings: Mapping[str, Any], options: CompileOptions, checked: bool) -> dict[str, Any]:
        """What `artifact.json` says of how graphs were compiled; `checked` says whether they were run."""
        return {}

    def advice(self, settings: Mapping[str, Any], log: str) -> str:
        """What may help where a compiler failed with this log: ". " and a sentence; empty where nothing is known."""
        return ""

    def package_versions(self, precisions: Sequence[str]) -> dict[str, str]:
        """The versions of the packages that decide what a graph computes, without importing them.

        Raises:
            CompileError: one is not installed.
        """
        names = ["torch", "transformers", "tokenizers", *self.packages, *self.precision_packages(precisions)]
        versions = {}
        for name in names:
            try:
                versions[name] = version(name)
            except PackageNotFoundError:
                raise CompileError(f"the package {name} is not installed; run make setup") from None
        return versions

    def precision_packages(self, precisions: Sequence[str]) -> tuple[str, ...]:
        """The packages that only some precisions need."""
        return ()

    def check_versions(self, compiled: Mapping[str, str]) -> None:  # noqa: B027  most engines take any
        """See that what is installed can run graphs compiled with these versions; ArtifactError if not."""

    def runs_here(self, groups: str | None) -> bool:
        """Whether this machine has the cores of a group, as a spec writes groups, and nobody holds them."""
        if not self.cores.exclusive:
            return True
        try:
            possible = possible_groups(self.cores.usable(), (core_groups(groups) or (1,))[0])
        except PlacementError:
            return False
        held = {core for holder in read_holders(leases_folder(self.cores.leases)) for core in holder.cores}
        return any(not held & set(group) for group in possible)

    def check_host_packages(self) -> list[Finding]:
        """For the doctor: whether what serving needs is installed."""
        versions = {name: installed(name) for name in (*self.serving_packages, "tokenizers", "orjson")}
        fix = f"the engine {self.name} needs it: make setup"
        return [ok(name, here) if here else fails(name, "not installed", fix) for name, here in versions.items()]

    def check_host_cores(self) -> list[Finding]:
        """For the doctor: the cores of this machine."""
        cores, allowed = cpu_cores(), allowed_cores()
        if len(cores) < len(allowed):
            return [ok("CPU cores", f"{len(cores)} of {len(allowed)}: a quota of CPU time allows no more")]
        return [ok("CPU cores", f"{len(cores)}: {','.join(str(core) for core in cores)}")]

    def is_installed(self) -> bool:
        """Whether its runtime is there."""
        return all(installed(name) for name in self.packages)

    def hardware_trials(self, cores: int, shape: str, target: str) -> dict[str, dict[str, Any]]:
        """For the hardware check: by their names, fields of specs that use each option on a device.

        Args:
            cores: of the instance.
            shape: for trials of a single graph.
            target: the kind of instance, where a compiler must know it.
        """
        return {}
