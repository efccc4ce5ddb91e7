"""Stores rounds as they are measured, so that an interrupted sweep continues where it stopped."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

import handlers
import marina
from marina.bench.load.measurement import Measurement
from marina.bench.load.payload import LoadCase
from marina.bench.report.machine import machine
from marina.bench.report.results import Configuration
from marina.bench.server.endpoint import Protocol
from marina.compiler.examples import read_examples
from marina.compiler.sources import open_source
from marina.spec import Spec


@dataclass(frozen=True)
class _Entry:
    key: str
    configuration: Configuration
    measurement: Measurement


_LINE = TypeAdapter(_Entry)


class Journal:
    """A file of rounds, one per line. The key of a round describes the measurement and its machine.

    The key covers the machine, the code of Marina, the weights, the spec with its texts, and the load.

    Args:
        path: path of the file.
        root: folder of the project; paths in specs are relative to it.
        protocol: protocol of requests.
    """

    def __init__(self, path: Path, root: Path, protocol: Protocol = "rest") -> None:
        self._path = path
        self._protocol = protocol
        self._root = root
        # a hash of the code instead of the revision, because it also covers changes that are not committed
        self._machine = {**machine(), "revision": _code()}
        self._contents: dict[tuple[str | None, ...], str] = {}
        self._rounds: dict[str, tuple[Configuration, Measurement]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text() if path.exists() else ""
        if text and not text.endswith("\n"):
            # the last line was cut off while being written; the next one must not continue it
            text += "\n"
            path.write_text(text)
        for line in text.splitlines():
            with suppress(ValueError):
                self._remember(_LINE.validate_json(line))

    def find(self, spec: Spec, workload: LoadCase, number: int) -> tuple[Configuration, Measurement] | None:
        """The stored round of a spec under a workload, or None.

        Raises:
            SourceError, SpecError: a file that the spec refers to is missing.
        """
        return self._rounds.get(self._key(spec, workload, number))

    def store(
        self, spec: Spec, workload: LoadCase, number: int, configuration: Configuration, measurement: Measurement
    ) -> None:
        """Store a round."""
        entry = _Entry(self._key(spec, workload, number), configuration, measurement)
        self._remember(entry)
        with self._path.open("ab") as file:
            file.write(_LINE.dump_json(entry) + b"\n")

    def _remember(self, entry: _Entry) -> None:
        self._rounds[entry.key] = entry.configuration, entry.measurement

    def _key(self, spec: Spec, workload: LoadCase, number: int) -> str:
        load, payload = workload
        bodies = hashlib.sha256(b"\0".join(payload.bodies)).hexdigest()
        round_conditions = [self._protocol, vars(load), bodies, number]
        document = [self._machine, spec.model_dump(mode="json"), self._content(spec), round_conditions]
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:24]

    def _content(self, spec: Spec) -> str:
        """Hash of the weights and the texts that a spec refers to; they are read only once, since weights are large."""
        content_key = (spec.source.model_dump_json(), spec.tokenizer, spec.preprocess, spec.task, spec.examples)
        if content_key not in self._contents:
            contents = [open_source(spec, self._root).fingerprint(), read_examples(spec, self._root)]
            self._contents[content_key] = hashlib.sha256(json.dumps(contents).encode()).hexdigest()
        return self._contents[content_key]


def _code() -> str:
    """Hash of the code that compiles, serves and measures."""
    digest = hashlib.sha256()
    for folder in (Path(marina.__file__).parent, Path(handlers.__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder.parent)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
