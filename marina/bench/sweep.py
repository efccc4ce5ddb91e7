"""Sweeps: every combination of what bench.yaml lists, round after round, each round in an order of its own.

Rounds are kept as they are measured, so that a sweep that was cut off goes on where it stopped.
"""

from __future__ import annotations

import itertools
import random
import time
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

from handlers.worker.errors import WorkerError
from handlers.worker.tasks import TASKS
from marina.bench.journal import Journal
from marina.bench.load import CLOSED_CONNECTIONS, OPEN_CONNECTIONS, Load
from marina.bench.result import Entry
from marina.bench.served import asked_how, check, measure_served
from marina.bench.stage import Stage
from marina.bench.texts import MIX, Asked, read_asked
from marina.console import Progress
from marina.errors import MarinaError
from marina.project import Project
from marina.spec import Spec, read_spec

SERVING = ("batch_size", "batch_delay_ms")
ASKED = ("connections", "rate", "instances")  # how it is asked; the rest is how the server is set up


class Vary(BaseModel):
    """What is tried; every combination is measured. What is left out stays as the spec has it."""

    model_config = ConfigDict(extra="forbid")

    engine: list[str] = Field(default=[], description="openvino, torchscript, neuron or neuronx")
    precision: list[str] = Field(default=[], description="f32, bf16, int8 or auto")
    shapes: list[str] = Field(default=[], description='sets of shapes, each as "1x32,8x128"')
    core_groups: list[str] = Field(default=[], description='as "1,1" or "2"')
    batch_size: list[int] = Field(default=[], description="requests that TorchServe hands over at once")
    batch_delay_ms: list[int] = Field(default=[], description="milliseconds that it waits for a fuller batch")
    connections: list[int] = Field(default=[], description="closed loops")
    rate: list[float] = Field(default=[], description="open loops, requests a second")
    instances: list[int] = Field(default=[1], description="texts in a request")


class Sweep(BaseModel):
    """A bench.yaml."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(description="a spec in models/")
    vary: Vary
    texts: str = Field(default=MIX, description="as --texts")
    protocol: Literal["rest", "grpc"] = "rest"
    arrivals: Literal["poisson", "constant"] = "poisson"
    rounds: int = Field(default=5, ge=1, description="of each combination; intervals need three or more")
    warm_up_s: float = Field(default=2.0, ge=0)
    window_s: float = Field(default=5.0, gt=0, description="measured in each round")
    instance: str | None = Field(default=None, description="for costs, as inf2.xlarge")
    price: float | None = Field(default=None, ge=0, description="for costs: USD an hour")
    baseline: dict[str, Any] | None = Field(default=None, description="fields of the combination ratios are against")

    @model_validator(mode="after")
    def _something_to_ask(self) -> Sweep:
        if not self.vary.connections and not self.vary.rate:
            self.vary.connections = [CLOSED_CONNECTIONS]
        return self


class Setting(NamedTuple):
    """One way to set the server up, and the loads to put on it."""

    spec: Spec
    loads: list[tuple[Load, Asked]]


def settings_of(sweep: Sweep, project: Project) -> list[Setting]:
    """Every combination; SpecError if one of them is no valid spec."""
    vary = sweep.vary
    path = project.models / f"{sweep.model}.yaml"
    base = read_spec(path)
    source = sweep.texts if sweep.texts == MIX else str(project.root / sweep.texts)
    asked = [read_asked(source, TASKS[base.task].fields, instances) for instances in vary.instances]
    once = Load(arrivals=sweep.arrivals, warm_up_s=sweep.warm_up_s, window_s=sweep.window_s, seconds=sweep.window_s)
    loads = [replace(once, connections=connections) for connections in vary.connections]
    loads += [replace(once, connections=OPEN_CONNECTIONS, rate=rate) for rate in vary.rate]
    fields = {name: values for name, values in vary.model_dump(exclude=set(ASKED)).items() if values}
    settings = []
    for values in itertools.product(*fields.values()):
        chosen = dict(zip(fields, values))
        overrides = {name: value for name, value in chosen.items() if name not in (*SERVING, "shapes")}
        if "shapes" in chosen:
            overrides["shapes"] = {"exact": str(chosen["shapes"]).split(",")}
        serving = {name: chosen[name] for name in SERVING if name in chosen}
        if serving:
            overrides["serving"] = {**base.serving.model_dump(), **serving}
        settings.append(Setting(read_spec(path, overrides), list(itertools.product(loads, asked))))
    return settings


def run_sweep(
    sweep: Sweep, settings: list[Setting], stage: Stage, journal: Journal, progress: Progress
) -> tuple[list[Entry], list[str]]:
    """Measure what is not measured yet.

    Args:
        sweep: the file.
        settings: its combinations.
        stage: where to serve.
        journal: where rounds are kept.
        progress: told of what is being done, and of the time that is left.

    Returns:
        One entry a combination and load, each with all rounds; and, a line each, which combinations
        could not be compiled or served, and why.

    Raises:
        SourceError, SpecError: what the spec refers to is missing.
    """
    steps = sweep.rounds * sum(len(setting.loads) for setting in settings)
    clock = _Clock(steps)
    failed: dict[int, str] = {}
    for number in range(sweep.rounds):
        order = random.Random(number).sample(range(len(settings)), len(settings))
        for place in order:
            setting = settings[place]
            missing = [pair for pair in setting.loads if journal.find(setting.spec, pair, number) is None]
            clock.skip(len(setting.loads) - len(missing))
            if not missing or place in failed:
                clock.skip(len(missing))
                continue
            what = f"round {number + 1} of {sweep.rounds}: {_told(setting.spec)}"
            progress(f"{what}, starting{clock.left()}", clock.done, steps)
            try:
                stage.archive(setting.spec)
                served = stage.serve(setting.spec.name, sweep.protocol)
            except (MarinaError, WorkerError) as error:
                failed[place] = str(error)
                clock.skip(len(missing))
                continue
            for load, asked in random.Random(number).sample(missing, len(missing)):
                progress(f"{what}, {load.describe()}{clock.left()}", clock.done, steps)
                check(served, asked)
                measured = measure_served(served, asked, load)
                configuration = {**served.configuration, **_as_asked(setting.spec), **asked_how(load, asked)}
                journal.keep(setting.spec, (load, asked), number, configuration, measured)
                clock.step()
    found = [journal.entry(setting.spec, pair, sweep.rounds) for setting in settings for pair in setting.loads]
    failures = [f"{_told(settings[place].spec)}: {why}" for place, why in sorted(failed.items())]
    return [entry for entry in found if entry], failures


class _Clock:
    """How far it is, and how long the rest will take at the speed of what was done in this run."""

    def __init__(self, steps: int) -> None:
        self.done = 0
        self._steps = steps
        self._measured = 0
        self._start = time.monotonic()

    def step(self) -> None:
        self.done += 1
        self._measured += 1

    def skip(self, steps: int) -> None:
        self.done += steps

    def left(self) -> str:
        if not self._measured:
            return ""
        seconds = (time.monotonic() - self._start) / self._measured * (self._steps - self.done)
        return f", about {seconds / 60:.0f} min left" if seconds >= 90 else f", about {seconds:.0f} s left"


def _as_asked(spec: Spec) -> dict[str, Any]:
    """What the spec asks for, where the server's own word for it is a result: auto becomes int8."""
    return {"precision": spec.precision, "core_groups": spec.core_groups or "all cores"}


def _told(spec: Spec) -> str:
    parts = [spec.engine, spec.precision, f"groups {spec.core_groups}" if spec.core_groups else ""]
    parts += [f"batch {spec.serving.batch_size}", f"delay {spec.serving.batch_delay_ms}"]
    return " ".join(part for part in parts if part)
