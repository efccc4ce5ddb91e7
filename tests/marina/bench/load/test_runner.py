"""The generator against servers whose behaviour is known. Bounds on time are wide: machines are shared."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from marina.bench.load.histogram import decoded, milliseconds
from marina.bench.load.measurement import MeasuredWindow, Measurement
from marina.bench.load.profile import Load, Target
from marina.bench.load.runner import measure
from tests.conftest import ROOT
from tests.marina.bench.load.servers import Served, always, answering, stalling

BODIES = [b'{"inputs": "one"}', b'{"inputs": "two"}', b'{"inputs": "three"}']


def target(served: Served, **fields: str) -> Target:
    return Target("rest", "127.0.0.1", served.port, ("/predictions/m",), **fields)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_closed_loop_keeps_its_connections_and_sends_every_body(chunked: bool) -> None:
    with answering(always(200), chunked) as served:
        measured = measure(target(served, token="key"), BODIES, 1, Load(3, warm_up_s=0.1, window_s=0.4, seconds=0.8))
    assert len(served.connections) == 3
    assert set(served.bodies) == set(BODIES)
    assert max(served.bodies.values()) - min(served.bodies.values()) <= 1
    assert served.headers["authorization"] == "Bearer key"
    assert measured.errors == {}
    assert 0 < measured.requests < sum(served.bodies.values())  # the warm-up is left out
    assert len(measured.windows) == 2
    answered = sum(window.throughput * window.seconds for window in measured.windows)
    assert answered == pytest.approx(measured.requests, rel=0.01)
    assert measured.latency_ms == milliseconds(decoded(measured.histogram))


def test_a_slow_server_is_slow_in_both_loops() -> None:
    with answering(always(200, 0.05)) as served:
        closed = measure(target(served), BODIES, 1, Load(4, warm_up_s=0.1, seconds=1.0))
        opened = measure(target(served), BODIES, 1, Load(64, rate=40, warm_up_s=0.1, seconds=1.5))
    for measured in (closed, opened):
        assert 50 <= measured.latency_ms["min"] < 70
    assert closed.throughput <= 4 / 0.05 * 1.1
    assert opened.throughput == pytest.approx(40, rel=0.5)


def test_instances_count_as_many_as_a_request_carries() -> None:
    with answering(always(200)) as served:
        measured = measure(target(served), BODIES, 8, Load(2, warm_up_s=0, seconds=0.5))
    assert measured.instances == 8 * measured.requests
    assert measured.throughput == pytest.approx(measured.instances / measured.seconds, rel=0.01)


def test_errors_are_counted_by_kind_and_never_as_answers() -> None:
    def behave(number: int) -> int | None:
        return {0: 503, 1: 200, 2: 400, 3: None}[number % 4]

    with answering(behave) as served:
        measured = measure(target(served), BODIES, 1, Load(1, warm_up_s=0, requests=40))
    assert measured.requests == 10
    assert measured.errors == {"HTTP 503": 10, "HTTP 400": 10, "connection closed": 10}
    assert decoded(measured.histogram).total_count == 10


def test_what_is_not_answered_in_time_is_an_error_and_does_not_stop_the_rest() -> None:
    def behave(number: int) -> int:
        if number == 3:
            time.sleep(2)
        return 200

    with answering(behave) as served:
        measured = measure(target(served), BODIES, 1, Load(2, warm_up_s=0, requests=50, timeout_s=0.5))
    assert measured.errors == {"no answer in 0.5 s": 1}
    assert measured.requests == 49


def test_no_server_is_an_error_of_its_own_and_takes_little_time_of_the_processor() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        gone = Target("rest", "127.0.0.1", probe.getsockname()[1], ("/",))
        measured = measure(gone, BODIES, 1, Load(4, warm_up_s=0, seconds=0.5))
    assert set(measured.errors) == {"connection refused"}
    assert sum(measured.errors.values()) < 200
    assert measured.latency_ms == {}
    assert measured.throughput == 0


def test_a_stall_is_in_the_tail_of_an_open_loop_though_few_requests_met_it() -> None:
    # six tenths of a second in two: three in ten of those who come must wait, 0.3 s on average
    with answering(stalling(2, 0.6)) as served:
        load = Load(256, rate=100, arrivals="constant", warm_up_s=0, seconds=2)
        opened = measure(target(served), BODIES, 1, load)
        closed = measure(target(served), BODIES, 1, Load(1, warm_up_s=0, seconds=2))
    assert opened.latency_ms["p99"] > 450
    assert opened.latency_ms["p90"] > 250
    # while a closed loop has one slow answer among very many
    assert closed.latency_ms["p99"] < 100
    assert closed.latency_ms["max"] > 300


def test_a_stall_at_the_very_end_is_not_lost() -> None:
    begin = time.monotonic()

    def behave(_: int) -> int:
        if time.monotonic() - begin > 1.0:
            time.sleep(1.0)
        return 200

    with answering(behave) as served:
        measured = measure(target(served), BODIES, 1, Load(64, rate=40, warm_up_s=0, seconds=1.5))
    assert measured.latency_ms["max"] > 900


def test_an_open_loop_that_is_too_fast_says_what_was_never_sent() -> None:
    with answering(always(200, 0.2)) as served:
        measured = measure(target(served), BODIES, 1, Load(2, rate=100, arrivals="constant", warm_up_s=0, seconds=1.0))
    assert measured.errors["never sent: all connections were taken"] > 50
    assert measured.generator is not None
    assert measured.generator.limit is not None
    assert measured.generator.limit.kind == "connections"
    assert "--connections" in measured.generator.limit.text
    assert measured.latency_ms["max"] > 500  # the wait in the generator counts


def test_processes_share_the_load() -> None:
    with answering(always(200, 0.01)) as served:
        load = Load(4, rate=60, arrivals="constant", warm_up_s=0, seconds=1.0, processes=2)
        measured = measure(target(served), BODIES, 1, load)
        counted = measure(target(served), BODIES, 1, Load(3, warm_up_s=0, requests=31, processes=2))
    assert sum(measured.errors.values()) + measured.requests == pytest.approx(60, abs=6)
    assert counted.requests == 31
    assert measured.generator is not None
    assert measured.generator.processes == 2


def test_windows_end_when_three_agree_and_are_reported_as_they_come() -> None:
    reported: list[tuple[MeasuredWindow, int, int]] = []
    with answering(always(200, 0.05)) as served:
        load = Load(8, warm_up_s=0.1, window_s=0.5, within=0.9, max_windows=20)
        measured = measure(target(served), BODIES, 1, load, lambda *window: reported.append(window))
    assert measured.stable is True
    assert 3 <= len(reported) < 20
    assert measured.counted == 3
    assert [window for window, _, _ in reported] == measured.windows
    assert [number for _, number, _ in reported] == list(range(1, len(reported) + 1))


def test_windows_that_never_agree_are_reported() -> None:
    with answering(stalling(0.8, 0.4)) as served:
        load = Load(2, warm_up_s=0, window_s=0.5, within=0.0, max_windows=4)
        measured = measure(target(served), BODIES, 1, load)
    assert measured.stable is False
    assert len(measured.windows) == 4
    assert measured.counted == 3


def test_a_generator_that_is_the_limit_says_so() -> None:
    # many connections to a server that answers at once from another process leave the generator no rest
    server = subprocess.Popen(
        [sys.executable, "-c", ECHO], stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    )
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        measured = measure(Target("rest", "127.0.0.1", port, ("/",)), BODIES, 1, Load(64, warm_up_s=0.2, seconds=1.5))
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        if server.stdout:
            server.stdout.close()
    assert measured.generator is not None
    busy = measured.generator.cpu + measured.generator.waited
    assert (measured.generator.limit is not None) == (busy >= 0.85)
    assert busy > 0.3


# answers whatever it reads, in processes of its own
ECHO = """
import os, selectors, socket
listener = socket.create_server(("127.0.0.1", 0), backlog=256)
print(listener.getsockname()[1], flush=True)
answer = b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok"
os.fork(); os.fork()
listener.setblocking(False)
selector = selectors.DefaultSelector()
selector.register(listener, selectors.EVENT_READ)
while True:
    for key, _ in selector.select():
        try:
            if key.fileobj is listener:
                selector.register(listener.accept()[0], selectors.EVENT_READ)
            elif key.fileobj.recv(65536):
                key.fileobj.sendall(answer)
            else:
                selector.unregister(key.fileobj)
        except (BlockingIOError, ConnectionError):
            pass
"""


def test_ctrl_c_ends_every_process(tmp_path: Path) -> None:
    code = (
        "from marina.bench.load.profile import Load, Target\nfrom marina.bench.load.runner import measure\n"
        "if __name__ == '__main__':\n"
        "    print('started', flush=True)\n"
        "    measure(Target('rest', '127.0.0.1', 9, ('/',)), [b'{}'], 1, Load(2, seconds=60, processes=2))\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    process = subprocess.Popen(
        [sys.executable, str(script)], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()
        time.sleep(1.5)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=20) != 0
    deadline = time.monotonic() + 10
    while subprocess.run(["pgrep", "-g", str(process.pid)], capture_output=True, check=False).returncode == 0:
        assert time.monotonic() < deadline, "a process is left"
        time.sleep(0.1)


def test_a_measurement_comes_back_from_json() -> None:
    with answering(always(200)) as served:
        measured = measure(target(served), BODIES, 1, Load(1, warm_up_s=0, window_s=0.2, seconds=0.4))
    stored = TypeAdapter(Measurement)
    assert stored.validate_json(stored.dump_json(measured)) == measured
