"""A bench.yaml: its fields, and every combination that it lists."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

from marina.bench.load.payload import MIX, LoadCase, read_payload, texts_of
from marina.bench.load.profile import CLOSED_CONNECTIONS, OPEN_CONNECTIONS, Load
from marina.bench.report.results import Configuration
from marina.project import Project
from marina.spec import Spec, read_spec

SERVING = ("batch_size", "batch_delay_ms")
LOAD = ("connections", "rate", "instances")  # the other fields configure the server


Count = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(ge=0.001, allow_inf_nan=False)]


class Vary(BaseModel):
    """The values to try; every combination is measured. Default of a field: the value in the spec."""

    model_config = ConfigDict(extra="forbid")

    engine: list[str] = Field(default=[], description="openvino, torchscript, neuron or neuronx")
    precision: list[str] = Field(default=[], description="f32, bf16, int8 or auto")
    shapes: list[str] = Field(default=[], description='sets of shapes, each as "1x32,8x128"')
    core_groups: list[str] = Field(default=[], description='as "1,1" or "2"')
    batch_size: list[int] = Field(default=[], description="requests that TorchServe hands over at once")
    batch_delay_ms: list[int] = Field(default=[], description="milliseconds that it waits for a fuller batch")
    connections: list[Count] = Field(default=[], description="closed loops")
    rate: list[Rate] = Field(default=[], description="open loops, requests per second")
    instances: list[Count] = Field(default=[1], min_length=1, description="texts per request")


class Sweep(BaseModel):
    """A bench.yaml."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(description="a spec in models/")
    vary: Vary
    texts: str | None = Field(default=None, description="as --texts; left out: the spec's examples, else mix")
    protocol: Literal["rest", "grpc"] = "rest"
    arrivals: Literal["poisson", "constant"] = "poisson"
    rounds: int = Field(default=5, ge=1, description="of each combination; intervals need three or more")
    warm_up_s: float = Field(default=2.0, ge=0)
    window_s: float = Field(default=5.0, gt=0, description="measured in each round")
    instance: str | None = Field(default=None, description="for costs, as inf2.xlarge")
    price: float | None = Field(default=None, ge=0, description="for costs: USD per hour")
    baseline: Configuration | None = Field(default=None, description="fields of what ratios are taken against")

    @model_validator(mode="after")
    def _default_load(self) -> Sweep:
        if not self.vary.connections and not self.vary.rate:
            self.vary.connections = [CLOSED_CONNECTIONS]
        return self


class Setting(NamedTuple):
    """One configuration of the server, and the workloads to measure on it."""

    spec: Spec
    workloads: list[LoadCase]

    def describe(self) -> str:
        """A short description, for progress and error messages."""
        spec = self.spec
        parts = [spec.engine, spec.precision, f"groups {spec.core_groups}" if spec.core_groups else ""]
        parts += [f"batch {spec.serving.batch_size}", f"delay {spec.serving.batch_delay_ms}"]
        return " ".join(part for part in parts if part)

    def configuration(self) -> Configuration:
        """The requested values of fields that the server reports as resolved; auto, for example, becomes int8."""
        return Configuration(precision=self.spec.precision, core_groups=self.spec.core_groups or "all cores")


def settings_of(sweep: Sweep, project: Project) -> list[Setting]:
    """Every combination; SpecError if a combination is not a valid spec."""
    vary = sweep.vary
    path = project.models / f"{sweep.model}.yaml"
    base = read_spec(path)
    if sweep.texts is None:
        source = texts_of(base, project)
    else:
        source = sweep.texts if sweep.texts == MIX else str(project.root / sweep.texts)
    payloads = [read_payload(source, base.instance_fields, instances) for instances in vary.instances]
    one_window = Load(
        arrivals=sweep.arrivals, warm_up_s=sweep.warm_up_s, window_s=sweep.window_s, seconds=sweep.window_s
    )
    loads = [replace(one_window, connections=connections) for connections in vary.connections]
    loads += [replace(one_window, connections=OPEN_CONNECTIONS, rate=rate) for rate in vary.rate]
    workloads = [LoadCase(load, payload) for load in loads for payload in payloads]
    fields = {name: values for name, values in vary.model_dump(exclude=set(LOAD)).items() if values}
    settings = []
    for values in itertools.product(*fields.values()):
        combination = dict(zip(fields, values, strict=True))
        overrides = {name: value for name, value in combination.items() if name not in (*SERVING, "shapes")}
        if "shapes" in combination:
            overrides["shapes"] = {"exact": str(combination["shapes"]).split(",")}
        serving = {name: combination[name] for name in SERVING if name in combination}
        if serving:
            overrides["serving"] = {**base.serving.model_dump(), **serving}
        settings.append(Setting(read_spec(path, overrides), workloads))
    return settings
