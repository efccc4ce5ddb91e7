"""Lines of logs as JSON, for programs that collect them: one object a line."""

from __future__ import annotations

import json
import re
import time

from marina.console import say

# of both hosts: 2026-11-27T20:15:01,123 [INFO ] W-9000-intents_1.0-stdout direct - message
_LINE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[,.]\d{3}) \[(?P<level>[A-Z]+) *\] (?P<thread>\S+) (?P<logger>\S+) - "
    r"(?P<message>.*)"
)
_WORKER = re.compile(r"W-(?P<worker>\d+)-(?P<model>.+)_(?P<version>[^_]+)-std(?:out|err)")
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
        return json.dumps({"time": _now(), "level": level, "message": line})
    fields = match.groupdict()
    worker = _WORKER.match(fields["thread"])
    trace = _TRACE.search(fields["message"])
    named = {**(worker.groupdict() if worker else {}), **(trace.groupdict() if trace else {})}
    return json.dumps({**fields, "time": moment, **named})


def say_json(line: str) -> None:
    """Print a line on standard output as JSON."""
    say(as_json(line))


def _utc(text: str) -> str | None:
    """A local time of a log as UTC; None if there is no such time."""
    seconds, milliseconds = text[:-4], text[-3:]
    try:
        moment = time.mktime(time.strptime(seconds, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None
    return time.strftime(f"%Y-%m-%dT%H:%M:%S.{milliseconds}Z", time.gmtime(moment))


def _now() -> str:
    now = time.time()
    return time.strftime(f"%Y-%m-%dT%H:%M:%S.{int(now % 1 * 1000):03d}Z", time.gmtime(now))
