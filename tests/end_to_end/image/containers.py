"""Containers of the image, and how to speak to them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import requests

from marina.deploy.needs import default_host
from tests.end_to_end.images import Images
from tests.ports import free_ports

TOKEN = "A-token-of-the-tests-" + "0123456789abcdef" * 4  # longer than nginx's own tables take
IMAGE, BASE = "localhost/marina-test", "localhost/debian-test"
WRITABLE = ("/tmp", "/run/marina")
HOST = os.environ.get("MARINA_HOST", default_host("cpu"))  # of the images
WORKER_PROGRAMS = ("model_service_worker.py", "handlers.worker.hosts.direct")
BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Container:
    """A running container and its ports."""

    def __init__(self, process: subprocess.Popen[bytes], ports: list[int], log: Path) -> None:
        self.process, self.ports, self.log = process, ports, log
        self.url = f"http://127.0.0.1:{ports[0]}"

    def wait(self) -> None:
        """Wait until it is ready, and says so: a signal or a death before is one of the start."""
        deadline = time.monotonic() + 400
        while self.ping() != 200 or "serving " not in self.log.read_text():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.2)

    def ping(self, path: str = "/ping") -> int:
        try:
            return requests.get(f"{self.url}{path}", timeout=10).status_code
        except requests.ConnectionError:
            return 0

    def workers(self) -> list[psutil.Process]:
        """Its worker processes, without any that has just ended."""
        workers = []
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if any(part.endswith(WORKER_PROGRAMS) for part in process.cmdline()):
                    workers.append(process)
        return workers


def variables(ports: list[int]) -> dict[str, str]:
    names = ("MARINA_PORT", "MARINA_GRPC_PORT", "MARINA_METRICS_PORT")
    return {name: str(port) for name, port in zip(names, ports, strict=True)}


@contextmanager
def serving(images: Images, log: Path, cgroup: Path | None = None) -> Iterator[Container]:
    ports = free_ports(3)
    given = {**variables(ports), "MARINA_TOKEN": TOKEN}
    with images.running(IMAGE, given, log, WRITABLE, cgroup=cgroup) as process:
        made = Container(process, ports, log)
        made.wait()
        yield made


def kill_workers(container: Container) -> None:
    for worker in container.workers():
        worker.kill()
