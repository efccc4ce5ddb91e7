"""A result as it is stored: everything that reports are made from, and what it was measured on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from marina.bench.load.measurement import Measurement
from marina.bench.load.payload import Workload
from marina.bench.report.machine import command, machine
from marina.bench.report.pricing import Price
from marina.errors import SpecError
from marina.files import write_json

FORMAT = 2
RESULT_FILE = "result.json"


@dataclass(frozen=True)
class Configuration:
    """What was measured, and under which load; None where a field is not known or has no meaning.

    Attributes:
        model: its name.
        strategy: how it was served, where a table compares several ways.
        batch, mode, cores_per_model: of a table's row: texts in a call, how cores are used, and how many.
        engine, precision: of the graphs.
        shapes: of the graphs, each as "8x128".
        core_groups: as "1,1".
        workers: processes that have the model.
        batch_size: the most requests that TorchServe hands over at once.
        batch_delay_ms: milliseconds that it waits for a fuller batch.
        connections: of a closed loop; None for an open one.
        rate: of an open loop, requests a second; None for a closed one.
        arrivals: of an open loop, "poisson" or "constant".
        instances: in a request.
        texts: where they are from.
        protocol: "rest" or "grpc".
        part: of a table.
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

    def known(self) -> dict[str, Any]:
        """The fields that are set, in order."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def with_fields_of(self, *others: Configuration) -> Configuration:
        """With what the others know in place of its own; the last one counts."""
        return replace(self, **{name: value for other in others for name, value in other.known().items()})

    def under(self, workload: Workload) -> Configuration:
        """With what a workload says of the load."""
        load, payload = workload
        return replace(
            self,
            connections=load.connections if load.rate is None else None,
            rate=load.rate,
            arrivals=load.arrivals if load.rate else None,
            instances=payload.instances,
            texts=payload.source,
        )

    def matches(self, wanted: Configuration) -> bool:
        """Whether it has the fields that are set in another."""
        return wanted.known().items() <= self.known().items()


@dataclass(frozen=True)
class Entry:
    """One configuration under one load, and what each round measured."""

    configuration: Configuration
    rounds: list[Measurement]


@dataclass(frozen=True)
class Result:
    """Some entries that were measured in one run.

    Attributes:
        kind: "bench", "sweep", "peers", or the name of a table.
        title: for people.
        entries: in the order in which they are shown.
        price: of an hour of the instance, or None.
        baseline: fields of the configuration that ratios are taken against, or None.
        more: what a table adds of its own, as JSON types.
        machine, command, made: on what, how and when (UTC) it was measured.
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
        """As JSON types; `read_result` gives an equal result."""
        return {"format": FORMAT, **_RESULT.dump_python(self, mode="json")}


_RESULT = TypeAdapter(Result)


def write_result(result: Result, folder: Path) -> Path:
    """Write result.json, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / RESULT_FILE, result.as_json())
    return folder / RESULT_FILE


def read_result(path: Path) -> Result:
    """A stored result; SpecError if the file is none of this format."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.pop("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        return _RESULT.validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = str(error)
    raise SpecError(f"{path} is not a result of marina bench: {why}")
