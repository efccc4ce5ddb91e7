"""Lines of logs as JSON, for programs that collect them: one object a line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timezone

# of both hosts: 2026-11-27T20:15:01,123 [INFO ] W-9000-intents_1.0-stdout direct - message
_LINE = re.compile(
    r"(?P<time>[0-9]{4}(?:-[0-9]{2}){2}T[0-9]{2}(?::[0-9]{2}){2}[,.][0-9]{3}) "
    r"\[(?P<level>[A-Z]+) *\] (?P<thread>\S+) (?P<logger>\S+) - (?P<message>.*)"
)
_WORKER = re.compile(r"W-(?P<worker>[0-9]+)-(?P<model>.+)_(?P<version>[^_]+)-std(?:out|err)")
_TRACE = re.compile(r" of trace (?P<trace_id>[0-9a-f]{32}) ")


def as_json(line: str, level: str = "INFO") -> str:
    """A line of a log, or of this program, as a JSON object.

    Args:
        line: without its line ending.
        level: of a line that has none.

    Returns:
        time (ISO 8601, UTC), level and message; thread and logger if the line has them; and for a line of a worker its
        number, model and version, and the id of the trace that it names.
    """
    match = _LINE.fullmatch(line)
    moment = _utc(match["time"]) if match else None
    if not match or not moment:
        return json.dumps({"time": _written(datetime.now()), "level": level, "message": line})
    fields = match.groupdict()
    worker = _WORKER.match(fields["thread"])
    trace = _TRACE.search(fields["message"])
    named = {**(worker.groupdict() if worker else {}), **(trace.groupdict() if trace else {})}
    return json.dumps({**fields, "time": moment, **named})


def line_printer(json_logs: bool) -> Callable[[str], None]:
    """What prints the lines of a log on standard output: as they are, or as JSON."""
    shown: Callable[[str], str] = as_json if json_logs else str
    return lambda line: print(shown(line), flush=True)


def _utc(text: str) -> str | None:
    """A local time of a log as UTC; None if there is no such time."""
    try:
        return _written(datetime.strptime(text.replace(",", "."), "%Y-%m-%dT%H:%M:%S.%f"))
    except (ValueError, OverflowError):
        return None


def _written(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
