"""Peers are started, measured and ended, with a small server in place of one that must be installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.peers import process, run
from benchmarks.peers.settings import Peer, peers
from marina.bench.load.payload import Payload
from marina.bench.report.results import Configuration
from marina.bench.sweep.rounds import measure_rounds
from marina.errors import MarinaError

SERVER = """
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Server(ThreadingHTTPServer):
    request_queue_size = 128

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200 if self.path == "/predict" else 404)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a virtual environment that is the present one, and short workloads."""
    (tmp_path / "venvs" / "stub" / "bin").mkdir(parents=True)
    (tmp_path / "venvs" / "stub" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "server.py").write_text(SERVER)
    monkeypatch.setattr(run, "SECONDS", 3.0)
    monkeypatch.setattr(process, "START_S", 30)
    return tmp_path


def stub(start: str) -> Peer:
    return Peer("stub, 1 worker", "stub", "text-classification", start, 1, "/predict", "inputs", "nothing is said")


def test_a_peer_is_measured_at_every_number_of_connections(folder: Path) -> None:
    peer = stub(f"{{bin}}/python {folder}/server.py {{port}}")
    strategy = run._peer_strategy(peer, folder, folder, cores=2)
    entries, failures = measure_rounds([strategy], 1, lambda *_: None, leave_out_failures=True)
    assert failures == []
    assert [one.configuration for one in entries] == [
        Configuration(
            model="ava-intent",
            strategy="stub, 1 worker",
            workers=1,
            connections=connections,
            instances=1,
            texts="built-in mix",
            protocol="rest",
        )
        for connections in (1, 32)
    ]
    assert all(one.rounds[0].requests > 0 for one in entries)


def test_a_peer_that_does_not_start_is_left_out_and_named(folder: Path) -> None:
    strategy = run._peer_strategy(stub("{bin}/python -c pass"), folder, folder, cores=2)
    entries, failures = measure_rounds([strategy], 2, lambda *_: None, leave_out_failures=True)
    assert entries == []
    assert failures == [f"stub, 1 worker, text-classification: it did not start; see {folder / 'peer.log'}"]


def test_a_command_that_fails_is_one_line() -> None:
    with pytest.raises(MarinaError, match=r"-c 'raise ValueError\(1\)' failed: ValueError: 1$"):
        process._run([sys.executable, "-c", "raise ValueError(1)"])


def test_every_peer_has_its_packages_and_a_body_for_each_text() -> None:
    for peer in peers(cores=2):
        assert (process.HERE / f"{peer.packages}.txt").read_text()
        assert len(Payload(peer.bodies(["one", "two"]), 1, "mix").bodies) == 2
        words = process._words(peer.start, peer, Path("model"), Path("source"), 1, Path("folder"))
        assert words[0].startswith("folder/venvs/")
        for word in words:
            if word.endswith(".py"):
                assert Path(word).exists()
