"""When requests come: from metrics, and from logs."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from marina.bench.server.recording import Arrival, read_log, record_metrics, write_arrivals
from marina.errors import MarinaError
from marina.plan.workload import read_log as replay

FAILED_READING = 2


@pytest.fixture
def metrics_port() -> Iterator[int]:
    """A server whose counters grow by 5 requests at every reading: four of up to 8 tokens, and one of up to 24.

    Its third reading fails.
    """
    readings = iter(range(1000))

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            reading = next(readings)
            if reading == FAILED_READING:
                self.send_error(500)
                return
            count = reading * 5
            lines = [
                f'marina_requests_total{{ModelName="m",member="m",status="200"}} {count}',
                f'marina_row_tokens_bucket{{ModelName="m",member="m",le="8"}} {count // 5 * 4}',
                f'marina_row_tokens_bucket{{ModelName="m",member="m",le="24"}} {count}',
                f'marina_row_tokens_bucket{{ModelName="m",member="m",le="+Inf"}} {count}',
            ]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(("\n".join(lines) + "\n").encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def test_metrics_become_requests_with_lengths(metrics_port: int, tmp_path: Path) -> None:
    seen: list[int] = []
    arrivals = record_metrics(metrics_port, "m", 2.0, lambda count, _: seen.append(count))
    assert len(arrivals) == seen[-1] >= 10
    assert {one.tokens for one in arrivals} <= {8, 24}
    assert 8 in {one.tokens for one in arrivals}
    write_arrivals(arrivals, tmp_path / "m.csv")
    seconds, tokens = replay(tmp_path / "m.csv")
    assert tokens is not None
    assert len(seconds) == len(tokens) == len(arrivals)


def test_a_failed_reading_loses_nothing(metrics_port: int) -> None:
    arrivals = record_metrics(metrics_port, "m", 2.9, lambda *_: None)
    assert len(arrivals) == 15
    assert max(later.seconds - earlier.seconds for earlier, later in itertools.pairwise(arrivals)) < 1.5


LOG = [
    '1.2.3.4 - - [23/Nov/2026:06:48:48 +0000] "POST /predictions/m HTTP/1.1" 200 12',
    '1.2.3.4 - - [23/Nov/2026:08:48:50 +0200] "POST /v2/models/m/infer HTTP/1.1" 200 12',
    '1.2.3.4 - - [23/Nov/2026:06:48:49 +0000] "POST /predictions/m2 HTTP/1.1" 200 12',
    '2026-11-23T06:48:49.250+00:00 "POST /predictions/m" 200',
    "no time /m",
    "2026-11-31 10:00:00 November has no such day /m",
    '1.2.3.4 - - [31/Nov/2026:06:48:48 +0000] "POST /predictions/m HTTP/1.1" 200 12',
]


def test_a_log_becomes_requests(tmp_path: Path) -> None:
    first, second, third = (one.seconds for one in read_log(LOG, "m"))
    assert first == 0
    assert 0.25 <= second <= 1.25
    assert 1 <= third <= 3
    write_arrivals(read_log(LOG, "m"), tmp_path / "m.csv")
    assert (tmp_path / "m.csv").read_text().startswith("seconds\n0.0000\n")


def test_nothing_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(MarinaError, match="1 requests came"):
        write_arrivals([Arrival(0, None)], tmp_path / "m.csv")
    assert not (tmp_path / "m.csv").exists()


def test_requests_of_unknown_tokens_get_those_of_others(tmp_path: Path) -> None:
    write_arrivals([Arrival(0, None), Arrival(1, 16), Arrival(2, None)], tmp_path / "m.csv")
    assert (tmp_path / "m.csv").read_text() == "seconds,tokens\n0.0000,16\n1.0000,16\n2.0000,16\n"
