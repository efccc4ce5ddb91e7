"""Engines compile graphs, and define everything else that Marina needs to know about an engine.

Enters: an exported model and a shape. Leaves: the files of a graph. Not known here: specs and jobs.

An engine is one value in one file here, and one file in `handlers/worker/engines/`, which runs its graphs inside the
server. All other code uses the value; no other code refers to an engine by name. docs/develop/engines.md shows how to
add an engine.

base.py       the interface of engines, and the defaults that most of them share
values.py     the values between an engine and the code that uses it
model.py      the exported model that engines compile, and inputs to trace it with
neuroncores/  what the two Neuron engines share
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
    """Every engine by name: those in this folder, and those that packages offer by an entry point in `GROUP`."""
    packaged = {entry.name: _load(entry) for entry in entry_points(group=GROUP) if entry.name not in ENGINES}
    return {name: import_module(f"{__name__}.{name}").ENGINE for name in ENGINES} | packaged


def _load(entry: EntryPoint) -> Engine:
    try:
        engine: Engine = entry.load()
    except Exception as error:  # the package may raise any error
        where = f"the engine {entry.name!r}, which an installed package offers as {entry.value}"
        raise SpecError(f"{where}, cannot be loaded: {type(error).__name__}: {error}", "update or remove it") from None
    return engine


def engine_of(name: str) -> Engine:
    """The engine with this name; SpecError if there is none."""
    try:
        return engines()[name]
    except KeyError:
        raise SpecError(f"unknown engine {name!r}; there are {', '.join(engines())}") from None
