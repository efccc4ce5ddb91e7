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

from marina.bench.server.server_metrics import MetricsReader
from marina.errors import MarinaError, ServerError
from marina.files import write_text

READ_INTERVAL_S = 1.0
# times in logs: of web servers, in the common format; of TorchServe and others, at the start of a line
COMMON = re.compile(r"\[(\d{2}/\w{3}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4})\]")
ISO = re.compile(r"^(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,](?:\d{6}|\d{3})(?!\d))?(?:Z|[+-]\d{2}:\d{2})?)")


class Arrival(NamedTuple):
    """One request: seconds from the start, and the tokens of one of its texts, or None if they are unknown."""

    seconds: float
    tokens: int | None


class MetricsReading(NamedTuple):
    """The counts so far: requests, and rows by their tokens, each rounded up to the bound of its bucket."""

    requests: float
    rows: Counter[int]


def record_metrics(port: int, model: str, seconds: float, tick: Callable[[int, int], None]) -> list[Arrival]:
    """Watch the metrics of a server on this machine for some time; Ctrl-C ends it sooner.

    The server may be restarted meanwhile.

    Args:
        port: of TorchServe's metrics.
        model: name of the archive.
        seconds: how long.
        tick: called with the requests and the seconds so far, after every reading.

    Raises:
        ServerError: the metrics cannot be read at the start.
    """
    reader = MetricsReader(port, model)

    def read() -> MetricsReading:
        counts = reader.read()
        return MetricsReading(sum(counts["marina_requests"].values()), _rows(counts["marina_row_tokens_bucket"]))

    rng, arrivals = random.Random(0), list[Arrival]()
    start = previous_time = now = time.monotonic()
    previous = read()
    with suppress(KeyboardInterrupt):
        while now < start + seconds:
            time.sleep(min(READ_INTERVAL_S, max(0.0, start + seconds - now)))
            now = time.monotonic()
            try:
                reading = read()
            except ServerError:  # the next reading also has the requests since the previous one
                continue
            count, new_rows = round(reading.requests - previous.requests), reading.rows - previous.rows
            times = sorted(rng.uniform(previous_time, now) - start for _ in range(count))
            previous, previous_time = reading, now
            tokens = rng.choices(list(new_rows), list(new_rows.values()), k=count) if new_rows else [None] * count
            arrivals += [Arrival(at, text_tokens) for at, text_tokens in zip(times, tokens, strict=True)]
            tick(len(arrivals), round(now - start))
    return arrivals


def _rows(buckets: Mapping[str, float]) -> Counter[int]:
    """The number of rows in each bucket of a cumulative histogram; rows above the last bucket count as rows in it."""
    rows, previous_count, last_bound = Counter[int](), 0.0, 0
    for bound, count in sorted((float(bound), count) for bound, count in buckets.items()):
        last_bound = last_bound if math.isinf(bound) else int(bound)
        rows[last_bound] += round(count - previous_count)
        previous_count = count
    return rows


def read_log(lines: Iterable[str], model: str) -> list[Arrival]:
    """The requests of a log for a model, which their paths name, in the order of time.

    Args:
        lines: of a web server's log in the common format, or lines that begin with a time in ISO 8601.
        model: name of the archive; lines without `/MODEL` are skipped.
    """
    rng, times = random.Random(0), []
    path = re.compile(rf"/{re.escape(model)}(?![\w.-])")
    for line in lines:
        if not path.search(line):
            continue
        at = _time_of(line)
        if at is not None:
            times.append(at.timestamp() + (0.0 if at.microsecond else rng.random()))
    start = min(times, default=0.0)
    return [Arrival(at - start, None) for at in sorted(times)]


def _time_of(line: str) -> datetime | None:
    """The time of a line of a log; None if it has none, or one that no calendar has."""
    common_match, iso_match = COMMON.search(line), ISO.match(line)
    try:
        if common_match:
            return datetime.strptime(common_match[1], "%d/%b/%Y:%H:%M:%S %z")
        if iso_match:
            return datetime.fromisoformat(iso_match[1].replace(",", ".").replace("Z", "+00:00"))
    except ValueError:
        return None
    return None


def write_arrivals(arrivals: list[Arrival], path: Path) -> None:
    """Write a .csv for `marina plan --replay`; MarinaError if there are fewer than two requests.

    Requests of unknown tokens get those of others, if any are known: the server counts a request and its rows one after
    the other, and no rows of a request that it refuses.
    """
    if len(arrivals) < 2:
        raise MarinaError(f"{len(arrivals)} requests came, so there is nothing to record")
    rng, text = random.Random(0), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    known = [arrival.tokens for arrival in arrivals if arrival.tokens is not None]
    writer.writerow(["seconds", "tokens"] if known else ["seconds"])
    for arrival in arrivals:
        tokens = [arrival.tokens or rng.choice(known)] if known else []
        writer.writerow([f"{arrival.seconds:.4f}", *tokens])
    write_text(path, text.getvalue())
