"""A stand-in for the Neuron SDK, put in the way of imports and commands by the environment."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
PACKAGES = FOLDER / "packages"
PROGRAMS = FOLDER / "bin"


def standin_environment(state: Path, cores: int, **knobs: str) -> dict[str, str]:
    """The environment of a pretended instance.

    Args:
        state: an empty folder for its state; the leases of its host lie in it too.
        cores: NeuronCores of the instance.
        knobs: more variables, see `packages/neuron_standin`.
    """
    state.mkdir(parents=True, exist_ok=True)
    return {
        "PYTHONPATH": str(PACKAGES),
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "MARINA_LEASES": str(state / "leases"),
        "NEURON_STANDIN": str(state),
        "NEURON_STANDIN_CORES": str(cores),
        **knobs,
    }


def events(state: Path, *kinds: str) -> list[dict[str, Any]]:
    """What processes did with the cores of the pretended instance: "claimed" them, were "refused", or "loaded" graphs.

    Args:
        state: the folder of its state.
        kinds: those that are wanted; the first two if none is given.
    """
    path = state / "events.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if line["event"] in (kinds or ("claimed", "refused"))]


def build_wheels(folder: Path) -> None:
    """Wheels of the stand-in's packages, with what the real ones ask for, for tests of what pip would choose."""
    folder.mkdir()
    for info in sorted(PACKAGES.glob("*.dist-info")):
        name = info.name.removesuffix(".dist-info")
        with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{info.name}/METADATA", (info / "METADATA").read_text())
            wheel.writestr(f"{info.name}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info.name}/RECORD", "")
