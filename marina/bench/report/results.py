"""Stored results: everything that reports are made from, including the machine that was measured."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from marina.bench.load.measurement import Measurement
from marina.bench.load.payload import LoadCase
from marina.bench.report.machine import command, machine
from marina.bench.report.pricing import Price
from marina.errors import SpecError
from marina.files import write_json

FORMAT = 2
RESULT_FILE = "result.json"


@dataclass(frozen=True)
class Configuration:
    """What was measured, and under which load; a field is None if it is unknown or has no meaning.

    Attributes:
        model: name of the model.
        strategy: how the model was served, if a table compares several ways.
        batch, mode, cores_per_model: of a table row: texts per call, how cores are used, and cores per model.
        engine, precision: engine and precision of the graphs.
        shapes: shapes of the graphs, each like "8x128".
        core_groups: core groups, like "1,1".
        workers: number of processes that have loaded the model.
        batch_size: maximum number of requests that TorchServe passes to a worker at once.
        batch_delay_ms: milliseconds that TorchServe waits for a fuller batch.
        connections: connections of a closed loop; None for an open loop.
        rate: requests per second of an open loop; None for a closed loop.
        arrivals: "poisson" or "constant", for an open loop.
        instances: instances per request.
        texts: source of the texts.
        protocol: "rest" or "grpc".
        part: part of a table.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    model: str | None = None
    strategy: str | None = None
    batch: int | None = None
    mode: str | None = None
    cores_per_model: int | None = None
    engine: str | None = None
    precision: str | None = None
    shapes: tuple[str, ...] | None = None
    core_groups: str | None = None
    workers: int | None = None
    batch_size: int | None = None
    batch_delay_ms: int | None = None
    connections: int | None = None
    rate: float | None = None
    arrivals: str | None = None
    instances: int | None = None
    texts: str | None = None
    protocol: str | None = None
    part: str | None = None

    def known_fields(self) -> dict[str, Any]:
        """The fields that are set, in order."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def with_fields_of(self, *others: Configuration) -> Configuration:
        """A copy with the fields that others have set; the last one takes precedence."""
        return replace(self, **{name: value for other in others for name, value in other.known_fields().items()})

    def with_load_of(self, workload: LoadCase) -> Configuration:
        """A copy with the load of a workload."""
        load, payload = workload
        return replace(
            self,
            connections=load.connections if load.rate is None else None,
            rate=load.rate,
            arrivals=load.arrivals if load.rate else None,
            instances=payload.instances,
            texts=payload.source,
        )

    def matches(self, pattern: Configuration) -> bool:
        """Whether it has the value of every field that the pattern has set."""
        return pattern.known_fields().items() <= self.known_fields().items()


@dataclass(frozen=True)
class Entry:
    """One configuration under one load, and the measurement of each round."""

    configuration: Configuration
    rounds: list[Measurement]


@dataclass(frozen=True)
class Result:
    """The entries that were measured in one run.

    Attributes:
        kind: "bench", "sweep", "peers", or the name of a table.
        title: title to display.
        entries: entries in the order of display.
        price: hourly price of the instance, or None.
        baseline: fields of the configuration that is the baseline of ratios, or None.
        more: additional data of a table, as JSON types.
        machine, command, made: machine, command and time (UTC) of the measurement.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: str
    title: str
    entries: list[Entry]
    price: Price | None = None
    baseline: Configuration | None = None
    more: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=machine)
    command: str = field(default_factory=command)
    made: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))

    def as_json(self) -> dict[str, Any]:
        """The result as JSON types; `read_result` restores an equal result."""
        return {"format": FORMAT, **_RESULT.dump_python(self, mode="json")}


_RESULT = TypeAdapter(Result)


def write_result(result: Result, folder: Path) -> Path:
    """Write result.json atomically; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / RESULT_FILE, result.as_json())
    return folder / RESULT_FILE


def read_result(path: Path) -> Result:
    """Read a stored result; SpecError if the file does not have this format."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.pop("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        return _RESULT.validate_python(document)
    except ValidationError as error:
        first_error = error.errors()[0]
        reason = f"{'.'.join(map(str, first_error['loc']))}: {first_error['msg']}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = str(error)
    raise SpecError(f"{path} is not a result of marina bench: {reason}")
