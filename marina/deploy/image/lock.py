"""What an image installs: every package in one version, with the checksums of its files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from marina.errors import DeployError

TIMEOUT_S = 120.0
LINUX = {
    "os_name": "posix",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
}
# what uv says without a network
UNREACHABLE = (
    "network connectivity is disabled",
    "network was disabled",
    "Failed to fetch",
    "error sending request",
    "dns error",
    "timed out",
)
# wheels for this C library or an older one run on the bases
PLATFORM = "x86_64-manylinux_2_28"


def with_dependencies(pins: Mapping[str, str], python: str, alone: Collection[str] = ()) -> dict[str, str]:
    """Packages with all that they need, in the versions that are installed here.

    Args:
        pins: versions of packages by name.
        python: the version of Python that they are for, as "3.13".
        alone: packages whose dependencies are left out.

    Raises:
        DeployError: a dependency is not installed here.
    """
    locked = {canonicalize_name(name): pin for name, pin in pins.items()}
    waiting = [(name, frozenset[str]()) for name in locked if name not in alone]
    visited = set(waiting)
    while waiting:
        name, extras = waiting.pop()
        for needed in _dependencies(name, extras, python):
            dependency = canonicalize_name(needed.name)
            if dependency not in locked:
                try:
                    locked[dependency] = version(dependency)
                except PackageNotFoundError:
                    raise DeployError(
                        f"{name} needs {dependency}, which is not installed here", f"pip install {dependency}"
                    ) from None
            key = (dependency, frozenset(needed.extras))
            if key not in visited and dependency not in alone:
                visited.add(key)
                waiting.append(key)
    return dict(sorted(locked.items()))


def _dependencies(name: str, extras: frozenset[str], python: str) -> Iterator[Requirement]:
    """The requirements of an installed package that hold on Linux with a version of Python; DeployError without it."""
    environment = {**LINUX, "python_version": python, "python_full_version": f"{python}.0"}
    try:
        requires = distribution(name).requires
    except PackageNotFoundError:
        raise DeployError(
            f"the image needs {name}, which is not installed here, so what it needs itself is not known",
            f"pip install {name}",
        ) from None
    for text in requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if not marker or any(marker.evaluate({**environment, "extra": extra}) for extra in ("", *extras)):
            yield requirement


def with_checksums(pins: Mapping[str, str], python: str) -> str | None:
    """Lines of a requirements file for pip, with the sha256 of each file of each version, as the index has them.

    Args:
        pins: versions of packages by name.
        python: the version of Python that they are for, as "3.13".

    Returns:
        None if uv is not installed, or reaches no index.

    Raises:
        DeployError: the index has no wheel of a version for this Python, or uv fails for another reason.
    """
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if uv is None:
        return None
    options = ["--quiet", "--no-deps", "--generate-hashes", "--no-header", "--no-annotate", "--only-binary", ":all:"]
    try:
        done = subprocess.run(
            [uv, "pip", "compile", *options, "--python-version", python, "--python-platform", PLATFORM, "-"],
            input="".join(f"{name}=={pin}\n" for name, pin in pins.items()),
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode == 0:
        return done.stdout
    if any(sign in done.stderr for sign in UNREACHABLE):
        return None
    reason = " ".join(done.stderr.split())[-400:]
    raise DeployError(
        f"the packages of the image cannot be locked for Python {python}: {reason}",
        "archive with versions that have wheels for it, or remove uv to go without checksums",
    )
