"""Engines: what compiles graphs, and all that the rest of Marina asks about that.

An engine is one value in one file here, and one file in `handlers/worker/engines/`, which runs its graphs inside of the
server. Everything else asks the value; nothing else knows an engine by its name. docs/develop/engines.md shows how to
add one.

base.py         what an engine answers, and what most of them answer
model.py        the exported model that engines compile, and inputs to trace it with
neuroncores.py  what the two Neuron engines share
mitigations.py  what they do against outputs that are not finite
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from handlers.worker.engines import ENGINES
from marina.engines.base import Engine
from marina.errors import SpecError

DEFAULT = ENGINES[0]
GROUP = "marina.engines"


@cache
def engines() -> Mapping[str, Engine]:
    """Every engine by its name: those of this folder, and those that packages offer by an entry point in `GROUP`."""
    packaged = {entry.name: _load(entry) for entry in entry_points(group=GROUP) if entry.name not in ENGINES}
    return {name: import_module(f"{__name__}.{name}").ENGINE for name in ENGINES} | packaged


def _load(entry: EntryPoint) -> Engine:
    try:
        engine: Engine = entry.load()
    except Exception as error:  # whatever the package raises
        where = f"the engine {entry.name!r}, which an installed package offers as {entry.value}"
        raise SpecError(f"{where}, cannot be loaded: {type(error).__name__}: {error}", "update or remove it") from None
    return engine


def engine_of(name: str) -> Engine:
    """An engine by its name; SpecError where there is none."""
    try:
        return engines()[name]
    except KeyError:
        raise SpecError(f"unknown engine {name!r}; there are {', '.join(engines())}") from None
