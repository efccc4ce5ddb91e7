"""The packages of the Neuron SDK: their versions, and whether they can run graphs that were compiled elsewhere.

PyPI has placeholder packages with these names; importing them raises an error. The real packages are in
AWS's own package index.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from packaging.version import InvalidVersion, Version

from handlers.worker.errors import ArtifactError

PLACEHOLDERS = {
    "torch-neuron": "1.0",
    "torch-neuronx": "1.0",
    "libneuronxla": "1.0",
    "neuron-cc": "1.0.post1",
    "neuronx-cc": "1.0.post1",
}
INDEX = "--extra-index-url https://pip.repos.neuron.amazonaws.com"


class NeuronSdk(NamedTuple):
    """The packages of one engine.

    Attributes:
        engine: the engine's name.
        runtime: the package that runs graphs.
        module: its Python module.
        compiler: the package of the compiler, and the program that tracing runs.
        programs: the programs that importing the module runs.
        below: from this version on, the runtime package is another product; "" if there is none.
        install: the command that installs the packages.
    """

    engine: str
    runtime: str
    module: str
    compiler: str
    programs: tuple[str, ...]
    below: str
    install: str


def installed(package: str) -> str | None:
    """The version of an installed package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def is_placeholder(package: str) -> bool:
    """Whether the installed package is PyPI's placeholder rather than the SDK's package."""
    return package in PLACEHOLDERS and installed(package) == PLACEHOLDERS[package]


def check_installed(sdk: NeuronSdk) -> None:
    """Check that an engine's runtime package is installed.

    Raises:
        ArtifactError: the package is missing or PyPI's placeholder; the message says how to install the real package.
    """
    package = sdk.runtime
    if installed(package) is None:
        raise ArtifactError(f"the engine {sdk.engine!r} needs {package}, which is not installed", sdk.install, ": ")
    if is_placeholder(package):
        raise ArtifactError(
            f"{package} {installed(package)} is a placeholder from PyPI that cannot be imported",
            f"remove it and install the SDK's: {sdk.install}",
        )
    if sdk.below and _release(installed(package)) >= _release(sdk.below):
        raise ArtifactError(
            f"{package} {installed(package)} is another product, which the engine {sdk.engine!r} cannot use: "
            f"it needs {package} below {sdk.below}",
            sdk.install,
        )


def import_runtime(sdk: NeuronSdk) -> Any:
    """Import the runtime's module, with the programs of its environment in front of PATH.

    The SDK finds its programs by PATH only, which lacks them if Python was started by its absolute path: by systemd,
    cron, or another program.

    Raises:
        ImportError: the package is not installed.
        ArtifactError: a program that the import runs is missing.
    """
    os.environ["PATH"] = programs_path()
    try:
        return import_module(sdk.module)
    except FileNotFoundError as error:
        raise ArtifactError(missing_program(sdk, str(error.filename))) from None


def missing_program(sdk: NeuronSdk, name: str) -> str:
    """The message for a program of the SDK that is missing."""
    return (
        f"the SDK runs the program {name}, which is neither in {programs_folder()} nor on PATH; "
        f"install its packages once more: {sdk.install}"
    )


def programs_folder() -> str:
    """The folder of the programs that the packages of this Python bring along."""
    return sysconfig.get_path("scripts")


def programs_path() -> str:
    """PATH with `programs_folder` in front."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join([programs_folder(), *(folder for folder in folders if folder != programs_folder())])


def find_program(name: str) -> str | None:
    """The path of a program in this Python's environment or on PATH; None if there is none."""
    return shutil.which(name, path=programs_path())


def check_versions(sdk: NeuronSdk, compiled: Mapping[str, str]) -> None:
    """Check that the installed packages can run graphs compiled with certain versions.

    A graph depends on the SDK that made it. The runtime package must have the same version. PyTorch must match except
    for its patch level. The compiler of the installed SDK, if there is one, must not be older.

    Args:
        sdk: the packages that will run the graphs.
        compiled: the versions recorded in the artifact.

    Raises:
        ArtifactError: the versions do not match; the message says what to install.
    """
    check_installed(sdk)
    runtime, compiler = sdk.runtime, sdk.compiler
    versions = {name: installed(name) for name in ("torch", runtime, compiler)}
    matches = {
        "torch": _release(versions["torch"])[:2] == _release(compiled.get("torch"))[:2],
        runtime: versions[runtime] == compiled.get(runtime),
        compiler: versions[compiler] is None or _release(versions[compiler]) >= _release(compiled.get(compiler)),
    }
    for name, is_match in matches.items():
        if not is_match:
            raise ArtifactError(
                f"the graphs were compiled with {name} {compiled.get(name)}, and {versions[name]} is installed",
                f"install {name}=={compiled.get(name)}, or compile the model again here and pack a new archive",
            )


def _release(text: str | None) -> tuple[int, ...]:
    """The numbers of a version, without its build metadata; () if the text is not a version."""
    try:
        return Version(text or "").release
    except InvalidVersion:
        return ()
