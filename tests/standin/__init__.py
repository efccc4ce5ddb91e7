"""A stand-in for the Neuron SDK, put in the way of imports and commands by the environment."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
PACKAGES = FOLDER / "packages"


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
        "PATH": f"{FOLDER / 'bin'}:{os.environ['PATH']}",
        "MARINA_LEASES": str(state / "leases"),
        "NEURON_STANDIN": str(state),
        "NEURON_STANDIN_CORES": str(cores),
        **knobs,
    }


def events(state: Path) -> list[dict[str, Any]]:
    """What processes did with the cores of the pretended instance: claimed them, or were refused."""
    path = state / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
