"""Tables of states: what happens, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from docs.made.tables import table
from handlers.worker.admission import backlog
from marina.score import shards
from marina.server.hosts.direct import queue
from marina.server.situation import STEPS

# the files of the code, by their names in marks
TABLES: dict[str, Mapping[tuple[Any, Any], Enum]] = {
    "handlers/worker/admission/backlog.py": backlog.TRANSITIONS,
    "marina/score/shards.py": shards.TRANSITIONS,
    "marina/server/hosts/direct/queue.py": queue.TRANSITIONS,
}
STEPS_FILE = "marina/server/situation.py"


def states_table(source: str) -> str | None:
    """The table of a file of the code; None if it has none."""
    if source == STEPS_FILE:
        rows = [
            [before.value, step.value, STEPS[before, True].value]
            for (before, with_outage), step in STEPS.items()
            if not with_outage
        ]
        return table(["the server has", "`marina upgrade`", "`marina upgrade --replace`"], rows)
    if source not in TABLES:
        return None
    rows = [
        [_named(before), event.value, "the same" if before is after else _named(after)]
        for (before, event), after in TABLES[source].items()
    ]
    return table(["state", "event", "next state"], rows)


def _named(state: Enum) -> str:
    return f"**{state.name.lower()}**: {state.value}"
