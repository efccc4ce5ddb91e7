"""The packages of the Neuron SDK: what is installed, and whether it can run what was compiled elsewhere.

PyPI has packages of these names that are placeholders: importing them raises. The real ones lie in
AWS's own package index.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from packaging.version import InvalidVersion, Version

from handlers.worker.errors import ArtifactError

PLACEHOLDERS = {"torch-neuron": "1.0", "torch-neuronx": "1.0", "libneuronxla": "1.0", "neuron-cc": "1.0.post1"}
INDEX = "--extra-index-url https://pip.repos.neuron.amazonaws.com"


class NeuronSdk(NamedTuple):
    """The packages of one engine: its runtime and its compiler, and the command that installs them."""

    engine: str
    runtime: str
    compiler: str
    install: str


def installed(package: str) -> str | None:
    """The version of an installed package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def is_placeholder(package: str) -> bool:
    """Whether what is installed is PyPI's placeholder and not the SDK's package."""
    return package in PLACEHOLDERS and installed(package) == PLACEHOLDERS[package]


def check_installed(sdk: NeuronSdk) -> None:
    """See that an engine's runtime package is there.

    Raises:
        ArtifactError: it is missing or is PyPI's placeholder; says how to install the real one.
    """
    package = sdk.runtime
    if installed(package) is None:
        raise ArtifactError(f"the engine {sdk.engine!r} needs {package}, which is not installed", sdk.install, ": ")
    if is_placeholder(package):
        raise ArtifactError(
            f"{package} {installed(package)} is a placeholder from PyPI that cannot be imported",
            f"remove it and install the SDK's: {sdk.install}",
        )


def check_versions(sdk: NeuronSdk, compiled: Mapping[str, str]) -> None:
    """See that what is installed can run graphs that were compiled with certain versions.

    A graph is bound to the SDK that made it: the runtime package must be the same, PyTorch the same
    but for its patch level, and the compiler that came with the installed SDK, where there is one,
    not older.

    Args:
        sdk: that is to run them.
        compiled: the artifact's versions.

    Raises:
        ArtifactError: they do not fit; says what to install.
    """
    check_installed(sdk)
    runtime, compiler = sdk.runtime, sdk.compiler
    found = {name: installed(name) for name in ("torch", runtime, compiler)}
    fits = {
        "torch": _release(found["torch"])[:2] == _release(compiled.get("torch"))[:2],
        runtime: found[runtime] == compiled.get(runtime),
        compiler: found[compiler] is None or _release(found[compiler]) >= _release(compiled.get(compiler)),
    }
    for name, fit in fits.items():
        if not fit:
            raise ArtifactError(
                f"the graphs were compiled with {name} {compiled.get(name)}, and {found[name]} is installed",
                f"install {name}=={compiled.get(name)}, or compile the model again here and pack a new archive",
            )


def _release(text: str | None) -> tuple[int, ...]:
    """The numbers of a version, without what says how it was built; () where it is none."""
    try:
        return Version(text or "").release
    except InvalidVersion:
        return ()
