"""A job: a spec with everything that it refers to found, and nothing loaded yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handlers.worker.errors import PlacementError
from handlers.worker.placement import NEURON_ENGINES, core_groups
from handlers.worker.placement.discovery import neuron_cores
from handlers.worker.placement.groups import possible_groups
from handlers.worker.placement.leases import leases_folder, read_holders
from marina.compiler.engines import package_versions
from marina.compiler.examples import Examples, read_examples
from marina.compiler.options import compiler_options
from marina.compiler.precision import candidates
from marina.compiler.source import find_source, fingerprint
from marina.errors import SourceError
from marina.spec import Spec


@dataclass(frozen=True)
class Job:
    """What one compilation starts from."""

    spec: Spec
    source: Path  # the model's folder
    weights: str  # fingerprint of that folder
    examples: Examples
    versions: dict[str, str]  # of the packages that compile
    options: dict[str, Any]  # for the compiler of a Neuron engine
    device: bool  # whether graphs of the engine can be run here


def prepare_job(spec: Spec, root: Path) -> Job:
    """Find what a spec refers to.

    Raises:
        SourceError, SpecError, CompileError: the weights, the examples or a package is missing.
    """
    try:
        source = find_source(spec.source, root)
    except SourceError as error:
        raise SourceError(f"{spec.name}: {error}") from None
    examples = read_examples(spec, root)
    versions = package_versions(spec.engine, candidates(spec, examples))
    options = compiler_options(spec, source)
    return Job(spec, source, fingerprint(source), examples, versions, options, _runs_here(spec))


def _runs_here(spec: Spec) -> bool:
    """Whether this machine has what the engine's graphs run on, and nobody holds it."""
    if spec.engine not in NEURON_ENGINES:
        return True
    try:
        groups = possible_groups(neuron_cores(), (core_groups(spec.core_groups) or (1,))[0])
    except PlacementError:
        return False
    held = {core for holder in read_holders(leases_folder("neuron")) for core in holder.cores}
    return any(not held & set(group) for group in groups)
