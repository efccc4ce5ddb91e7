"""A result as it is stored: everything that reports are made from, and what it was measured on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from marina.bench.costs import Price
from marina.bench.machine import command, machine
from marina.bench.measured import Measured
from marina.errors import SpecError
from marina.files import write_json

FORMAT = 1
RESULT_FILE = "result.json"


@dataclass(frozen=True)
class Entry:
    """One configuration under one load, and what each round measured.

    configuration has, as far as they are known: model, engine, precision, shapes, core_groups, workers,
    batch_size, batch_delay_ms, protocol, connections, rate, arrivals, instances, texts.
    """

    configuration: dict[str, Any]
    rounds: list[Measured]


@dataclass(frozen=True)
class Result:
    """Some entries that were measured in one run.

    Attributes:
        kind: "bench", "sweep", or the name of a table.
        title: for people.
        entries: in the order in which they are told.
        price: of an hour of the instance, or None.
        baseline: the configuration, or some of its fields, that ratios are taken against, or None.
        more: what a table adds of its own, as JSON types.
        machine, command, made: on what, how and when (UTC) it was measured.
    """

    kind: str
    title: str
    entries: list[Entry]
    price: Price | None = None
    baseline: dict[str, Any] | None = None
    more: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=machine)
    command: str = field(default_factory=command)
    made: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))

    def as_json(self) -> dict[str, Any]:
        """As JSON types; `from_json` gives an equal result."""
        fields = asdict(self)
        fields["price"] = self.price._asdict() if self.price else None
        document: dict[str, Any] = json.loads(json.dumps({"format": FORMAT, **fields}))
        return document

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Result:
        """Back from JSON types."""
        fields = {name: value for name, value in document.items() if name != "format"}
        fields["entries"] = [
            Entry(entry["configuration"], [Measured.from_json(one) for one in entry["rounds"]])
            for entry in fields["entries"]
        ]
        fields["price"] = Price(**fields["price"]) if fields["price"] else None
        return cls(**fields)


def write_result(result: Result, folder: Path) -> Path:
    """Write result.json, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / RESULT_FILE, result.as_json())
    return folder / RESULT_FILE


def read_result(path: Path) -> Result:
    """A stored result; SpecError if the file is none of this format."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']}, not {FORMAT}")
        return Result.from_json(document)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SpecError(f"{path} is not a result of marina bench: {error}") from None
