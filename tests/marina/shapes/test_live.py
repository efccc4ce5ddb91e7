"""Lengths from the metrics of a running server."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from handlers.worker.telemetry.metrics import ROW_TOKENS_BUCKETS
from marina.errors import ServerError
from marina.project import Project
from marina.shapes.choice import candidates
from marina.shapes.live import LONGER, live_lengths

PAGE = """# TYPE marina_row_tokens_bucket counter
marina_row_tokens_bucket{member="m",le="8",ModelName="m",Level="Model",Hostname="h",} 3.0
marina_row_tokens_bucket{member="m",le="24",ModelName="m",Level="Model",Hostname="h",} 5.0
marina_row_tokens_bucket{member="m",le="+Inf",ModelName="m",Level="Model",Hostname="h",} 6.0
marina_row_tokens_bucket{member="m",le="8",ModelName="bundle",Level="Model",Hostname="h",} 1.0
marina_row_tokens_bucket{member="m",le="24",ModelName="bundle",Level="Model",Hostname="h",} 1.0
marina_row_tokens_bucket{member="m",le="+Inf",ModelName="bundle",Level="Model",Hostname="h",} 1.0
marina_row_tokens_bucket{member="other",le="+Inf",ModelName="other",Level="Model",Hostname="h",} 9.0
# TYPE a_bucket counter
a_bucket{member="m",le="8",ModelName="m",Level="Model",Hostname="h",} 7.0
"""


@pytest.fixture
def url() -> Iterator[str]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/metrics" else 404)
            self.end_headers()
            self.wfile.write(PAGE.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_buckets_become_lengths(url: str, project: Project) -> None:
    assert Counter(live_lengths("m", project, f"{url}/metrics")) == {8: 4, 24: 2, LONGER: 1}


def test_what_is_missing_is_told_in_a_line(url: str, project: Project) -> None:
    with pytest.raises(ServerError, match="have no rows of unknown yet"):
        live_lengths("unknown", project, f"{url}/metrics")
    with pytest.raises(ServerError, match="cannot be read: 404"):
        live_lengths("m", project, url)
    with pytest.raises(ServerError, match="no server is running"):
        live_lengths("m", project, None)


def test_buckets_are_as_fine_as_the_lengths_of_shapes() -> None:
    assert set(candidates(512)) <= set(ROW_TOKENS_BUCKETS)
    assert set(candidates(1024)) <= set(ROW_TOKENS_BUCKETS)
