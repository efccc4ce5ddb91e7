import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import mean, median
from typing import ClassVar

import pytest

from benchmarks.load import drive, requests_of
from benchmarks.texts import mixed


class Answers(BaseHTTPRequestHandler):
    """Answers 200; and 503, closing the connection, to every fifth request."""

    protocol_version = "HTTP/1.1"
    count = 0
    bodies: ClassVar[set[bytes]] = set()

    def do_POST(self) -> None:
        type(self).count += 1
        self.bodies.add(self.rfile.read(int(self.headers["Content-Length"])))
        failing = self.count % 5 == 0
        body = b"x" * 100_000
        self.send_response(503 if failing else 200)
        self.send_header("Content-Length", str(len(body)))
        if failing:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = failing

    def log_message(self, *_: object) -> None:
        pass


def test_answers_and_errors_are_counted_apart() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            asked = requests_of("/predictions/m", "key", [b"one", b"three"])
            load = drive(server.server_address[1], asked, connections=3, warm_up_s=0.0, seconds=0.5)
        finally:
            server.shutdown()
            thread.join()
    assert Answers.bodies == {b"one", b"three"}
    answered = len(load.milliseconds)
    assert answered > 0
    assert load.errors == pytest.approx((answered + load.errors) / 5, abs=4)
    assert Answers.count - 3 <= answered + load.errors <= Answers.count


def test_the_mix_of_texts_is_what_it_says_and_always_the_same() -> None:
    lengths = sorted(len(text.split()) + 2 for text in mixed())
    assert mean(lengths) == pytest.approx(22, abs=0.5)
    assert median(lengths) == 17
    assert lengths[int(len(lengths) * 0.95)] == pytest.approx(55, abs=3)
    assert mixed() == mixed()
    assert mixed(seed=1) != mixed()
