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
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from marina.engines.scalars import typed_scalars
from tests.proofs.cases import EVERY, Case, cases, varied_inputs
from tests.proofs.hlo import limits, operators

FILE = Path(__file__).parents[2] / "docs" / "proofs" / "xla.json"
READ = "aten::_local_scalar_dense"  # a number that the model's code reads from a tensor
TOLERANCE = 1e-4  # of the largest output, or of 1


class Lowering(NamedTuple):
    """What comes of a case.

    Attributes:
        outcome: "lowered", "reads back", "fell back: ...", "differs: ..." or "refused: ...".
        operators: of the lowered graph.
        limits: the documented error codes for what the graph contains.
        fixed: whether inputs of the same shape with other values give the same graph with the same numbers in it.
    """

    outcome: str
    operators: frozenset[str] = frozenset()
    limits: tuple[str, ...] = ()
    fixed: bool = True


def lower(case: Case) -> Lowering:
    """Lower a case. The model has computed nothing on a CPU before, since it may keep what it computed there."""
    import torch
    import torch_xla
    from torch_xla.debug import metrics

    if isinstance(case.model, str):
        return Lowering(f"refused: {case.model}")
    inputs: Any = varied_inputs(case.model, case.shape)
    module = case.model.module_for(case.shape)
    try:
        with torch.no_grad():
            metrics.clear_all()
            text, numbers, lowered = graph_of(module, inputs)
            torch_xla.sync()
            computed = [output.cpu() for output in lowered]
            counters = sorted(name for name in metrics.counter_names() if name.startswith("aten::"))
            others = [tensor.flip(-1) for tensor in inputs]
            other_text, other_numbers, _ = graph_of(module, others)
            expected = module(*inputs)
    except Exception as error:  # the model's own code, or torch_xla, may raise any
        return Lowering(f"refused: {type(error).__name__}: {' '.join(str(error).split())[:150]}")
    fixed = text == other_text and all(
        torch.equal(number, other) or any(torch.equal(other, tensor) for tensor in others)
        for number, other in zip(numbers, other_numbers, strict=True)
    )
    return Lowering(_outcome(counters, computed, expected), frozenset(operators(text)), tuple(limits(text)), fixed)


def graph_of(module: Any, inputs: Sequence[Any]) -> tuple[str, list[Any], list[Any]]:
    """The graph of one call: its HLO, the tensors that go in, weights among them, and its outputs."""
    import torch_xla

    device = torch_xla.device()
    with typed_scalars():
        outputs = list(copy.deepcopy(module).to(device)(*[tensor.to(device) for tensor in inputs]))
    text = torch_xla._XLAC._get_xla_tensors_hlo(outputs)
    _, given = torch_xla._XLAC._get_tensors_xla_device_data_node(outputs)
    return text, [tensor.cpu() for tensor in given], outputs


def _outcome(fallen: list[str], computed: list[Any], expected: Sequence[Any]) -> str:
    if fallen == [READ]:
        return "reads back"
    if fallen:
        return f"fell back: {', '.join(fallen)}"
    worst = max(
        float((one - other).abs().max() / other.abs().max().clamp(min=1))
        for one, other in zip(computed, expected, strict=True)
    )
    return "lowered" if worst < TOLERANCE else f"differs: {worst:.1g}"


def graphs_of(tasks: Mapping[str, Lowering]) -> dict[str, list[str]]:
    """What is on file of the graphs of an architecture: all operators and limits, and the tasks that are not fixed."""
    lowerings = tasks.values()
    return {
        "operators": sorted({name for lowering in lowerings for name in lowering.operators}),
        "limits": sorted({limit for lowering in lowerings for limit in lowering.limits}),
        "not fixed": [task for task, lowering in tasks.items() if not lowering.fixed],
    }


def main() -> None:
    """Write the file; exit with status 1 if an architecture that is tested everywhere falls back."""
    os.environ["PJRT_DEVICE"] = "CPU"
    from tests.handlers.worker.tasks.architectures import ARCHITECTURES

    lowerings: dict[str, dict[str, Lowering]] = {}
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(Path(folder), "neuronx", dict.fromkeys(sys.argv[1:], 0) or EVERY):
            lowering = lower(case)
            lowerings.setdefault(case.architecture, {})[case.task] = lowering
            what = lowering.outcome
            print(f"{case.architecture:22} {case.task:22} {what}", *lowering.limits, flush=True)
            if case.architecture in ARCHITECTURES and what not in ("lowered", "reads back"):
                failed.append(f"{case.architecture} for {case.task}: {what}")
    if not sys.argv[1:]:
        names = ("torch", "torch_xla", "transformers")
        document = {
            "versions": {name: version(name) for name in names},
            "models": {name: {task: what.outcome for task, what in tasks.items()} for name, tasks in lowerings.items()},
            "graphs": {name: graphs_of(tasks) for name, tasks in lowerings.items()},
        }
        FILE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    sys.exit("\n".join(failed) or 0)


if __name__ == "__main__":
    main()
