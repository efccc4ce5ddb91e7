"""Lowers every model with torch_xla, as torch-neuronx does before neuronx-cc compiles it: `make test-xla`.

torch-neuronx 2.9 traces through PyTorch/XLA 2.9. An operator that PyTorch/XLA cannot lower runs on the CPU (torch_xla
counts it as `aten::...`), and cannot be part of a Neuron graph. With PJRT_DEVICE=CPU, PyPI's torch_xla lowers the same
modules here, and its outputs can be compared. What neuronx-cc makes of the lowered graph is not shown.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.proofs.cases import EVERY, Case, cases, varied_inputs

FILE = Path(__file__).parents[2] / "docs" / "proofs" / "xla.json"
READ = "aten::_local_scalar_dense"  # a number that the model's code reads from a tensor
TOLERANCE = 1e-4  # of the largest output, or of 1


def outcome(case: Case) -> str:
    """What comes of a case: "lowered", "reads back", "fell back: ...", "differs: ..." or "refused: ..."."""
    import torch
    import torch_xla
    from torch_xla.debug import metrics

    if isinstance(case.model, str):
        return f"refused: {case.model}"
    inputs: Any = varied_inputs(case.model, case.shape)
    module = case.model.module_for(case.shape)
    try:
        with torch.no_grad():
            expected = module(*inputs)
            metrics.clear_all()
            device = torch_xla.device()
            lowered = copy.deepcopy(module).to(device)(*[tensor.to(device) for tensor in inputs])
            torch_xla.sync()
            found = [output.cpu() for output in lowered]
    except Exception as error:  # the model's own code, or torch_xla, may raise any
        return f"refused: {type(error).__name__}: {' '.join(str(error).split())[:150]}"
    fallen = sorted(name for name in metrics.counter_names() if name.startswith("aten::"))
    if fallen == [READ]:
        return "reads back"
    if fallen:
        return f"fell back: {', '.join(fallen)}"
    worst = max(
        float((one - other).abs().max() / other.abs().max().clamp(min=1))
        for one, other in zip(found, expected, strict=True)
    )
    return "lowered" if worst < TOLERANCE else f"differs: {worst:.1g}"


def main() -> None:
    """Write the file; exit with status 1 if an architecture that is tested everywhere falls back."""
    os.environ["PJRT_DEVICE"] = "CPU"
    from tests.handlers.worker.tasks.architectures import ARCHITECTURES

    results: dict[str, dict[str, str]] = {}
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(Path(folder), "neuronx", dict.fromkeys(sys.argv[1:], 0) or EVERY):
            what = outcome(case)
            results.setdefault(case.architecture, {})[case.task] = what
            print(f"{case.architecture:22} {case.task:22} {what}", flush=True)
            if case.architecture in ARCHITECTURES and what not in ("lowered", "reads back"):
                failed.append(f"{case.architecture} for {case.task}: {what}")
    if not sys.argv[1:]:
        names = ("torch", "torch_xla", "transformers")
        document = {"versions": {name: version(name) for name in names}, "models": results}
        FILE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    sys.exit("\n".join(failed) or 0)


if __name__ == "__main__":
    main()
