"""Rounds on file as they are measured, so that a sweep that was cut off goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from marina.bench.load import Load
from marina.bench.machine import machine
from marina.bench.measured import Measured
from marina.bench.result import Entry
from marina.bench.texts import Asked
from marina.spec import Spec


class Journal:
    """Rounds on file, one a line, found again by what was measured and on what."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._machine = {name: fact for name, fact in machine().items() if name != "revision"}
        self._kept: dict[str, tuple[dict[str, Any], Measured]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text() if path.exists() else ""
        if text and not text.endswith("\n"):
            # cut off while it was written; what comes next must not be on the same line
            text += "\n"
            path.write_text(text)
        for line in text.splitlines():
            try:
                entry = json.loads(line)
                self._kept[entry["key"]] = entry["configuration"], Measured.from_json(entry["measured"])
            except (ValueError, KeyError, TypeError):
                continue

    def find(self, spec: Spec, pair: tuple[Load, Asked], number: int) -> tuple[dict[str, Any], Measured] | None:
        """What was measured of a combination in a round, or None."""
        return self._kept.get(self._key(spec, pair, number))

    def keep(
        self, spec: Spec, pair: tuple[Load, Asked], number: int, configuration: dict[str, Any], measured: Measured
    ) -> None:
        """Write a round down."""
        key = self._key(spec, pair, number)
        self._kept[key] = configuration, measured
        with self._path.open("a") as file:
            file.write(json.dumps({"key": key, "configuration": configuration, "measured": measured.as_json()}) + "\n")

    def entry(self, spec: Spec, pair: tuple[Load, Asked], rounds: int) -> Entry | None:
        """All rounds of a combination; None if none was measured."""
        kept = [one for number in range(rounds) if (one := self.find(spec, pair, number))]
        return Entry(kept[0][0], [measured for _, measured in kept]) if kept else None

    def _key(self, spec: Spec, pair: tuple[Load, Asked], number: int) -> str:
        load, asked = pair
        bodies = hashlib.sha256(b"\0".join(asked.bodies)).hexdigest()
        document = [self._machine, spec.model_dump(mode="json"), vars(load), bodies, number]
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:24]
