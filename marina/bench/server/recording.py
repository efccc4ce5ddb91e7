"""Records when requests come and how long their texts are: from a running server's metrics, or from a log.

Metrics and logs tell the second of a request; within it, requests are spread at random.
"""

from __future__ import annotations

import csv
import io
import math
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import requests

from marina.bench.server.server_metrics import TIMEOUT_S, counters
from marina.errors import MarinaError, ServerError
from marina.files import write_text
from marina.server.torchserve.tokens import loopback_session

EVERY_S = 1.0
# of the logs of web servers in the common format, and of TorchServe and others at the start of a line
COMMON = re.compile(r"\[(\d{2}/\w{3}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4})\]")
ISO = re.compile(r"^(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,](?:\d{6}|\d{3})(?!\d))?(?:Z|[+-]\d{2}:\d{2})?)")


class Arrival(NamedTuple):
    """One request: seconds from the start, and tokens of a text of it, or None if they are unknown."""

    seconds: float
    tokens: int | None


class MetricsReading(NamedTuple):
    """What was counted so far: requests, and rows by their tokens, each rounded up to the bound of its bucket."""

    requests: float
    rows: Counter[int]


def record_metrics(port: int, model: str, seconds: float, tick: Callable[[int, int], None]) -> list[Arrival]:
    """Watch the metrics of a server on this machine for some time; Ctrl-C ends it sooner.

    Args:
        port: of TorchServe's metrics.
        model: name of the archive.
        seconds: how long.
        tick: called with the requests and the seconds so far, after every reading.

    Raises:
        ServerError: the metrics cannot be read.
    """
    url, session = f"http://127.0.0.1:{port}/metrics", loopback_session()

    def read() -> MetricsReading:
        try:
            page = session.get(url, timeout=TIMEOUT_S)
            page.raise_for_status()
        except requests.RequestException as error:
            raise ServerError(f"the metrics of TorchServe at {url} cannot be read: {error}") from None
        found = counters(page.text, model)
        return MetricsReading(sum(found["marina_requests"].values()), _rows(found["marina_row_tokens_bucket"]))

    chance, arrivals = random.Random(0), list[Arrival]()
    start = now = time.monotonic()
    before = read()
    with suppress(KeyboardInterrupt):
        while now < start + seconds:
            time.sleep(min(EVERY_S, max(0.0, start + seconds - now)))
            then, now, found = now, time.monotonic(), read()
            came, rows = round(found.requests - before.requests), found.rows - before.rows
            before = found
            spread = sorted(chance.uniform(then, now) - start for _ in range(came))
            tokens = chance.choices(list(rows), list(rows.values()), k=came) if rows else [None] * came
            arrivals += [Arrival(at, one) for at, one in zip(spread, tokens, strict=True)]
            tick(len(arrivals), round(now - start))
    return arrivals


def _rows(buckets: Mapping[str, float]) -> Counter[int]:
    """How many rows there are in each bucket of a cumulative histogram; those above the last one count as in it."""
    found, below, last = Counter[int](), 0.0, 0
    for bound, count in sorted((float(bound), count) for bound, count in buckets.items()):
        last = last if math.isinf(bound) else int(bound)
        found[last] += round(count - below)
        below = count
    return found


def read_log(lines: Iterable[str], model: str) -> list[Arrival]:
    """The requests of a log that name a model in their path, in the order of time.

    Args:
        lines: of a web server's log in the common format, or lines that begin with a time in ISO 8601.
        model: name of the archive; lines without `/MODEL` are left out.
    """
    chance, found = random.Random(0), []
    path = re.compile(rf"/{re.escape(model)}(?![\w.-])")
    for line in lines:
        if not path.search(line):
            continue
        common, iso = COMMON.search(line), ISO.match(line)
        if common:
            found.append(datetime.strptime(common[1], "%d/%b/%Y:%H:%M:%S %z").timestamp() + chance.random())
        elif iso:
            at = datetime.fromisoformat(iso[1].replace(",", ".").replace("Z", "+00:00"))
            found.append(at.timestamp() + (0.0 if at.microsecond else chance.random()))
    start = min(found, default=0.0)
    return [Arrival(at - start, None) for at in sorted(found)]


def write_arrivals(arrivals: list[Arrival], path: Path) -> None:
    """Write a .csv for `marina plan --replay`; MarinaError if there are fewer than two requests."""
    if len(arrivals) < 2:
        raise MarinaError(f"{len(arrivals)} requests came, so there is nothing to record")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    known = all(arrival.tokens is not None for arrival in arrivals)
    writer.writerow(["seconds", "tokens"] if known else ["seconds"])
    writer.writerows(
        [f"{arrival.seconds:.4f}", arrival.tokens] if known else [f"{arrival.seconds:.4f}"] for arrival in arrivals
    )
    write_text(path, text.getvalue())
