"""Compares the operators of every model with those that AWS lists for Inf1: `make inf1-operators`.

Runs in the environment of the Inf1 stack, whose PyTorch traces as torch-neuron does.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

from marina.engines.model import example_inputs
from marina.engines.neuroncores.inf1_operators import doubtful, operators_of
from tests.proofs.cases import EVERY, Case, cases

FILE = Path(__file__).parents[2] / "docs" / "proofs" / "inf1.json"


def outcome(case: Case) -> dict[str, Any]:
    """What comes of a case: `refused`, or the `operators` that are missing in AWS's list, by how often each occurs."""
    import torch

    if isinstance(case.model, str):
        return {"refused": case.model}
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inputs = example_inputs(case.model, case.shape)
            traced = torch.jit.trace(case.model.module_for(case.shape), inputs, check_trace=False)
    except Exception as error:  # the model's own code may raise any
        return {"refused": f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"}
    found = operators_of(traced)
    return {"operators": sum(found.values()), "doubtful": doubtful(found)}


def main() -> None:
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(Path(folder), "neuron", dict.fromkeys(sys.argv[1:], 0) or EVERY):
            results.setdefault(case.architecture, {})[case.task] = what = outcome(case)
            print(f"{case.architecture:22} {case.task:22} {what}", flush=True)
    if not sys.argv[1:]:
        document = {"versions": {name: version(name) for name in ("torch", "transformers")}, "models": results}
        FILE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
