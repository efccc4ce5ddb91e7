"""A description of the machine that was measured; figures mean nothing without it."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from handlers.worker.engines.packages import installed
from handlers.worker.placement.discovery import cpu_cores

PACKAGES = (
    *("marina-serving", "torchserve", "torch", "openvino", "torch-neuron", "torch-neuronx", "neuronx-cc"),
    *("transformers", "tokenizers", "numpy"),
)


def machine() -> dict[str, Any]:
    """Processor, cores, memory, versions of the relevant packages, and the revision of the code, as JSON types."""
    return {
        "processor": _processor(),
        "cores": len(cpu_cores()),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: release for name in PACKAGES if (release := installed(name))},
        "revision": _revision(),
    }


def command() -> str:
    """The running command as it was typed, with tokens hidden."""
    words = [Path(sys.argv[0]).name, *sys.argv[1:]]
    hidden = [
        "..." if before == "--token" else "--token=..." if word.startswith("--token=") else word
        for before, word in pairwise(["", *words])
    ]
    return shlex.join(hidden)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    raw_fields = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    fields = {name.strip(): value.strip() for name, value in raw_fields.items()}
    name = fields.get("model name", platform.processor() or platform.machine())
    family = [
        f"{part} {fields[f'{key}']}" for part, key in (("family", "cpu family"), ("model", "model")) if key in fields
    ]
    return f"{name} ({', '.join(family)})" if family else name


def _revision() -> str | None:
    """The revision of the checkout that contains this file, with + if it has changes; None outside a checkout."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if changed.stdout.strip() else "")
