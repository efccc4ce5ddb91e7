"""The interface of an engine outside the server, and the defaults that most engines share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handlers.worker.engines import engine_module
from handlers.worker.engines.packages import installed
from handlers.worker.errors import PlacementError
from handlers.worker.placement import Cores, core_groups
from handlers.worker.placement.discovery import allowed_cores, cpu_cores
from handlers.worker.placement.groups import lay_out
from handlers.worker.placement.leases import leases_folder, read_holders
from handlers.worker.values import Row
from marina.engines.values import (
    CORE_PER_WORKER,
    CompileOptions,
    DeviceMemory,
    EngineFields,
    GraphCompiler,
    Hosting,
    NoOptions,
)
from marina.errors import CompileError
from marina.fields import Section
from marina.findings import Finding, fails, ok

if TYPE_CHECKING:
    from marina.engines.model import ExportedModel


class Engine(ABC):
    """One engine. The attributes describe it; the defaults suit CPU engines.

    Attributes:
        name: the name in specs.
        version: of the code that compiles; a higher one compiles all of the engine's artifacts again.
        packages: packages whose versions affect what a graph computes, besides those that every model needs.
        serving_packages: packages that a worker imports.
        stack: the file in requirements/ that installs them, and the name of its overlays and images.
        options: the type of the spec's section named after the engine.
        precisions: the precisions that a spec may set.
        modes: the modes that a spec may set.
        attention: transformers' attention implementation for exporting models; None for transformers' own choice.
        portable: whether it accepts every model that PyTorch can trace, so it can be recommended if other engines fail.
        compiles_apart: whether compiling takes minutes and gigabytes per graph. If so, each graph is compiled in its
            own process, several at once; finished graphs are kept when another fails, and no graph is compiled only to
            try a precision.
        tolerance: the default tolerance of outputs in f32 for specs that set none; None for the spec's own default.
        more_exact: the spec setting to recommend if a precision changes answers.
        memories: the memory of each of its devices, if graphs must fit into it; the usual device first.
        hosting: where its archives can be hosted.
        claims: what documentation says and nobody has run, by the check of `marina doctor --hardware` that confirms it:
            a name from `hardware_trials` or `sdk_commands`, "bundle", "compile", or "device memory".
    """

    name: str
    version = 1
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
    memories: tuple[DeviceMemory, ...] = ()
    hosting = Hosting()
    claims: Mapping[str, str] = {}

    @property
    def cores(self) -> Cores:
        """The kind of cores that its graphs run on."""
        return engine_module(self.name).CORES

    def memory_on(self, family: str) -> DeviceMemory | None:
        """The memory on a family of instances, for example "trn2u"; of the usual device if it has no other."""
        usual = self.memories[0] if self.memories else None
        return next((memory for memory in self.memories if family.startswith(memory.families)), usual)

    def hosting_for(self, versions: Mapping[str, str], compiler: Mapping[str, Any]) -> Hosting:
        """Where an archive can be hosted that was compiled with packages in these versions.

        Args:
            versions: of the packages.
            compiler: from `record`.
        """
        return self.hosting

    def check(self, fields: EngineFields) -> None:  # noqa: B027  most engines refuse nothing
        """Raise ValueError for a combination of settings that the engine does not support."""

    def refuses_packed(self, fields: EngineFields) -> str:
        """Why graphs cannot have packed shapes with these settings; empty if they can."""
        return ""

    def instances_for(self, fields: EngineFields) -> str:
        """The instances that run graphs with these settings, for people; "" for any. One worker has graphs for one."""
        return ""

    def candidates(self, fields: EngineFields, calibrated: bool) -> tuple[str, ...]:
        """The precisions to try, smallest first; `calibrated` is true if there are texts to calibrate int8 on."""
        return (self.precision(fields, ()),)

    def precision(self, fields: EngineFields, mitigations: Sequence[str]) -> str:
        """The precision that a spec sets, f32 for auto, after the given mitigations."""
        return "f32" if fields.precision == "auto" else fields.precision

    def casts_all(self, fields: EngineFields) -> bool:
        """Whether a lower precision applies to all numbers, or only to matrix products."""
        return False

    def settings(self, fields: EngineFields, count_weights: Callable[[], int]) -> dict[str, Any]:
        """The compiler's settings with all defaults resolved; they are part of an artifact's key.

        Raises ValueError for impossible settings.

        Args:
            fields: the spec's fields.
            count_weights: returns the model's number of weights; reads their files.
        """
        return {}

    def replaces_weights(self, settings: Mapping[str, Any]) -> bool:
        """Whether a graph compiled with these settings can be given the weights of another model when it is loaded."""
        return False

    def compile_options(self, precision: str, runs: bool) -> list[CompileOptions]:
        """The options to try in order until outputs are finite; `runs` is true if graphs can be run to check that."""
        return [CompileOptions(precision)]

    @abstractmethod
    def open_compiler(
        self, model: ExportedModel, settings: Mapping[str, Any], calibration: Sequence[Row], workdir: Path
    ) -> GraphCompiler:
        """Prepare a model.

        Args:
            model: the loaded model.
            settings: from `settings`.
            calibration: rows like those that will be served, for int8.
            workdir: for files that compilers leave behind.

        Raises:
            ImportError: a package is not installed.
            Exception: any error of the engine for a model that it does not support.
        """

    def record(
        self, settings: Mapping[str, Any], options: CompileOptions, checked: bool, notes: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """The record in `artifact.json` of how graphs were compiled.

        Args:
            settings: from `settings`.
            options: the options that the graphs were compiled with.
            checked: whether the graphs were run.
            notes: the compiler's notes on each graph.
        """
        return {}

    def remarks(self, compiler: Mapping[str, Any], graphs: Sequence[Mapping[str, Any]]) -> list[str]:
        """Remarks for people about compiled graphs.

        Args:
            compiler: from `record`.
            graphs: the entries of the graphs in `artifact.json`.
        """
        return []

    def advice(self, settings: Mapping[str, Any], log: str) -> str:
        """Advice if a compiler failed with this log: ". " and a sentence; empty if there is none."""
        return ""

    def package_versions(self, precisions: Sequence[str]) -> dict[str, str]:
        """The versions of the packages that affect what a graph computes, without importing them.

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
        """Check that the installed packages can run graphs compiled with these versions; ArtifactError if not."""

    def runs_here(self, fields: EngineFields) -> bool:
        """Whether this machine has cores that the graphs are for, and those of a core group are free."""
        if not self.cores.exclusive:
            return True
        try:
            held_cores = {core for holder in read_holders(leases_folder(self.cores.leases)) for core in holder.cores}
            sizes, cores = core_groups(fields.core_groups), self.cores.usable()
            fit = max(sizes.sizes or (1,)) <= len(cores)  # else no worker starts, whatever is free
            return fit and lay_out([sizes.preferred[0]], set(cores) - held_cores) != [None]
        except PlacementError:
            return False

    def check_host_packages(self) -> list[Finding]:
        """For the doctor: whether the packages for serving are installed."""
        versions = {name: installed(name) for name in (*self.serving_packages, "tokenizers", "orjson")}
        fix = f"the engine {self.name} needs it: make setup"
        return [
            ok(name, installed_version) if installed_version else fails(name, "not installed", fix)
            for name, installed_version in versions.items()
        ]

    def check_host_cores(self) -> list[Finding]:
        """For the doctor: the cores of this machine."""
        cores, allowed = cpu_cores(), allowed_cores()
        if len(cores) < len(allowed):
            return [ok("CPU cores", f"{len(cores)} of {len(allowed)}: a quota of CPU time allows no more")]
        return [ok("CPU cores", f"{len(cores)}: {','.join(str(core) for core in cores)}")]

    def is_installed(self) -> bool:
        """Whether its runtime is installed."""
        return all(installed(name) for name in self.packages)

    def hardware_trials(self, cores: int, shape: str, target: str) -> dict[str, dict[str, Any]]:
        """For the hardware check: spec fields that exercise each option on a device, by the name of the trial.

        Args:
            cores: the number of cores of the instance.
            shape: the shape for trials of a single graph.
            target: the instance type, for compilers that need it.
        """
        return {}

    def sdk_commands(self, target: str) -> dict[str, Sequence[str]]:
        """For the hardware check: commands that need the SDK's packages but no device, by the name of the check.

        Args:
            target: as in `hardware_trials`.
        """
        return {}
