"""What is measured of a tree: a server under load, a job in bulk, and plans."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import yaml

from benchmarks.processes import megabytes
from benchmarks.quick import plans
from benchmarks.quick.tree import Tree
from marina.bench.load.mix import mixed_texts
from marina.bench.load.payload import bodies_of
from marina.bench.load.profile import Load
from marina.bench.load.runner import measure
from marina.bench.server.benchmark_server import UNLIMITED
from marina.bench.server.endpoint import target_of
from marina.errors import MarinaError
from marina.server.run.ports import free_ports
from marina.server.run.state import Ports
from marina.spec import Spec


class Figure(NamedTuple):
    """A figure: its name with the unit, and whether more is better."""

    name: str
    more_is_better: bool = False


START, LONE, BUSY = Figure("start to READY, s"), Figure("a lone text, p50 ms"), Figure("64 connections, texts/s", True)
MEMORY, BULK = Figure("server and worker after the load, MB"), Figure("marina score, rows/s", True)
CALLS, PLANNED = Figure(f"calls of {plans.BATCHES} batches"), Figure("their predicted ms")
PLANNING = Figure("seconds to plan them")
FIGURES = (START, LONE, BUSY, MEMORY, BULK, CALLS, PLANNED, PLANNING)


def prepare(tree: Tree, spec: Spec, source: Path, rows: int) -> None:
    """Pack a model with the code of a tree, and write texts for a job in bulk.

    Args:
        tree: the code.
        spec: of the model; float32 and its shapes are compiled.
        source: the folder of its weights.
        rows: of the job.
    """
    fields = {
        **{"name": spec.name, "task": spec.task, "source": {"path": str(source)}, "precision": "f32"},
        "shapes": {"exact": [str(shape) for shape in spec.shapes.listed()]},
        "serving": {**UNLIMITED, "queue_size": 1000},
    }
    (tree.project.models / f"{spec.name}.yaml").write_text(yaml.safe_dump(fields), encoding="utf-8")
    texts = [json.dumps({"text": text}) for text in mixed_texts(1)]
    lines = [texts[number % len(texts)] for number in range(rows)]
    _input(tree).write_text("\n".join([*lines, ""]), encoding="utf-8")
    tree.marina("archive", spec.name)


def measure_tree(tree: Tree, name: str, host: str, seconds: float) -> dict[Figure, float]:
    """The figures of a tree, each measured once.

    Args:
        tree: the code, for which `prepare` has packed the model.
        name: of the model.
        host: what carries the workers.
        seconds: of each load.
    """
    figures = _of_server(tree, name, host, seconds)
    output = tree.project.root / "answers.jsonl"
    output.unlink(missing_ok=True)
    rows = len(_input(tree).read_text(encoding="utf-8").splitlines())
    start = time.monotonic()
    tree.marina("score", name, "--input", str(_input(tree)), "--output", str(output))
    seconds_of_job = time.monotonic() - start
    planned = json.loads(tree.python(str(Path(plans.__file__))))
    return {
        **figures,
        BULK: rows / seconds_of_job,
        CALLS: planned["calls"],
        PLANNED: planned["ms"],
        PLANNING: planned["seconds"],
    }


def _of_server(tree: Tree, name: str, host: str, seconds: float) -> dict[Figure, float]:
    ports = Ports(*free_ports(5))
    others = {field: port for field, port in asdict(ports).items() if field != "inference"}
    options = [f"--{field.replace('_', '-')}-port={port}" for field, port in others.items()]
    start = time.monotonic()
    tree.marina("serve", name, "--host", host, f"--port={ports.inference}", *options)
    try:
        started = time.monotonic() - start
        target = target_of(name, "rest", "127.0.0.1", ports.inference, tree.marina("token").strip())
        bodies = bodies_of(mixed_texts(), 1)
        loads = [Load(connections, warm_up_s=1, seconds=seconds) for connections in (1, 64)]
        lone, busy = (measure(target, bodies, 1, load) for load in loads)
        if lone.errors or busy.errors:
            raise MarinaError(f"{tree.name}: requests failed: {lone.errors or busy.errors}")
        memory = megabytes(json.loads(tree.marina("status", "--json"))["pid"])
    finally:
        tree.marina("stop")
    return {START: started, LONE: lone.latency_ms["p50"], BUSY: busy.throughput, MEMORY: memory}


def _input(tree: Tree) -> Path:
    return tree.project.root / "texts.jsonl"
