"""Small HTTP servers to measure, each in a thread, with behaviour that is known beforehand."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# answers a body, given the request's number: a status, or None to close the connection unanswered
Behaviour = Callable[[int], int | None]


class Served:
    """What a server was asked."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.bodies: Counter[bytes] = Counter()
        self.connections: set[int] = set()
        self.headers: dict[str, str] = {}


@contextmanager
def answering(behaviour: Behaviour, chunked: bool = False) -> Iterator[Served]:
    """Serve while the block runs."""
    lock = threading.Lock()
    number = 0

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_POST(self) -> None:
            nonlocal number
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with lock:
                number += 1
                mine = number
                served.bodies[body] += 1
                served.connections.add(self.client_address[1])
                served.headers = {name.lower(): value for name, value in self.headers.items()}
            status = behaviour(mine)
            if status is None:
                self.close_connection = True
                return
            self.send_response(status)
            answer = b"x" * 20_000
            if chunked:
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(answer), answer))
            else:
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        served = Served(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


def always(status: int, seconds: float = 0.0) -> Behaviour:
    """The same answer to everything, after some seconds."""

    def behave(_: int) -> int:
        time.sleep(seconds)
        return status

    return behave


def stalling(period_s: float, stall_s: float) -> Behaviour:
    """Good answers at once, but for a stall at the start of every period, which all requests wait for."""
    begin = time.monotonic()

    def behave(_: int) -> int:
        into = (time.monotonic() - begin) % period_s
        if into < stall_s:
            time.sleep(stall_s - into)
        return 200

    return behave
