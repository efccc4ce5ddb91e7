"""Computes what is recorded: `python -m tests.replay.cases` prints it as JSON."""

from __future__ import annotations

import hashlib
import json
import random
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from handlers.worker.rows.plan import Planner
from handlers.worker.values import Shape
from marina.archive.pack import pack
from marina.shapes.best import best_shapes
from marina.shapes.choice import choose_for_bulk, choose_shapes
from marina.shapes.costs import CostModel
from marina.spec import make_spec

CASES = 10
SHAPES = [Shape(1, 16), Shape(1, 32), Shape(8, 32), Shape(1, 64), Shape(8, 64), Shape(1, 128), Shape(8, 128)]
PACKED = [Shape(1, 128, True), Shape(4, 128, True), Shape(1, 64, True)]
TASKS = ["text-classification", "sentence-embedding", "token-classification", "question-answering"]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"core_groups": "1,1", "serving": {"batch_size": 8, "batch_delay_ms": 2}},
    {"engine": "torchscript", "serving": {"max_tokens": 5000, "server_timing": True}},
    {"engine": "neuron", "core_groups": "2,2", "mode": "pipeline"},
    {"long_text": "reject", "serving": {"deadline_ms": 500, "queue_size": 50}},
]


def outputs(case: int) -> dict[str, Any]:
    """The plans, shapes and archive of a case."""
    chance = random.Random(case)
    lengths = [min(128, max(3, round(chance.lognormvariate(3.0, 0.3 + 0.1 * case)))) for _ in range(20 + 5 * case)]
    shapes = SHAPES + (PACKED if case % 3 == 1 else [])
    times = {shape: 0.3 + (0.02 + shape.sequence_length * 1e-5) * shape.tokens for shape in shapes}
    plans = [
        [[str(call.shape), list(call.rows)] for call in Planner(times).plan(lengths[:count])]
        for count in (1, 5, len(lengths))
    ]
    model = CostModel(times)
    choices = choose_shapes(lengths, 128, 32, model.milliseconds, 4)
    best = best_shapes(choices, lengths, 128, 32, model, 4, 0.01)
    return {
        "plans": plans,
        "shapes": [str(shape) for shape in best.shapes],
        "bulk": [str(shape) for shape in choose_for_bulk(lengths, 128, model.milliseconds, 4)[-1].shapes],
        "archive": _archive(case),
    }


def _archive(case: int) -> dict[str, str]:
    """The files of an archive without its code, as sha256."""
    fields = {
        "name": f"model-{case}",
        "source": {"package": "somewhere", "folder": "model"},
        "version": "1",
        "task": TASKS[case % len(TASKS)],
    }
    spec = make_spec({**fields, **SETTINGS[case % len(SETTINGS)]})
    with TemporaryDirectory() as folder:
        artifact = Path(folder) / "artifact"
        (artifact / "graphs").mkdir(parents=True)
        (artifact / "artifact.json").write_text(json.dumps({"name": spec.name, "engine": spec.engine}))
        (artifact / "graphs" / "1x16.bin").write_bytes(bytes(range(case + 1)))
        with zipfile.ZipFile(pack(spec, artifact, Path(folder) / "store").path) as archive:
            return {
                name: hashlib.sha256(archive.read(name)).hexdigest()[:16]
                for name in archive.namelist()
                if not name.startswith("handlers/") and not name.endswith(".py")
            }


if __name__ == "__main__":
    print(json.dumps([outputs(case) for case in range(CASES)], indent=1))
