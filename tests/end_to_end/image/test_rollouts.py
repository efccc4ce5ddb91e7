"""What clients get while containers are replaced, removed and killed; `pytest -s` prints the counts of each event."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from marina.project import Project
from tests.end_to_end.image.containers import IMAGE, WRITABLE, Container, variables
from tests.end_to_end.image.service import Service
from tests.end_to_end.images import Images, needs_buildah
from tests.end_to_end.load import LOST, Load
from tests.ports import free_ports
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, needs_buildah]
OLD, NEW = "old-token-0123456789", "new-token-0123456789"
CLIENTS = 3  # of each kind
STOP_S = 120
PRE_STOP_S = 1  # between the end of new connections and SIGTERM, as the pods' preStop has it


class Cluster:
    """Starts containers of the image and ends them, as a platform does."""

    def __init__(self, images: Images, folder: Path, archives: Path) -> None:
        self._images, self._folder, self._archives = images, folder, archives
        self._number = 0
        self.stack = ExitStack()

    def start(self, tokens: str, archives: Path | None = None) -> Container:
        """Start a container whose tokens are separated by spaces, with the archives of a folder."""
        self._number += 1
        ports, log = free_ports(3), self._folder / f"log{self._number}"
        given = {**variables(ports), "MARINA_TOKEN": tokens, "MARINA_MODELS": "intents"}
        shown = {"/srv/marina/archives": archives or self._archives}
        running = self._images.running(IMAGE, given, log, WRITABLE, files=shown)
        return Container(self.stack.enter_context(running), ports, log)

    def replace(self, service: Service, old: list[Container], tokens: str) -> list[Container]:
        """A rolling update: for each container, start a new one, and then end the old one."""
        made = []
        for container in old:
            made.append(self.start(tokens))
            service.add(made[-1])
            self.stop(service, container)
        return made

    @staticmethod
    def stop(service: Service, container: Container) -> None:
        """End a container that gets no new connections any more."""
        service.remove(container)
        time.sleep(PRE_STOP_S)  # connections that are on their way to it arrive
        container.process.send_signal(signal.SIGTERM)
        assert container.process.wait(STOP_S) == 0


@pytest.fixture
def archives(project: Project, tmp_path: Path) -> Path:
    folder = tmp_path / "archives"
    folder.mkdir()
    shutil.copy(project.model_store / "intents.mar", folder)
    os.chown(folder / "intents.mar", 10001, 10001)
    return folder


@contextmanager
def cluster(images: Images, folder: Path, archives: Path) -> Iterator[Cluster]:
    made = Cluster(images, folder, archives)
    with made.stack:
        yield made


def test_clients_lose_nothing(images: Images, archives: Path, tmp_path: Path) -> None:
    service = Service()
    with cluster(images, tmp_path, archives) as platform:
        pods = [platform.start(OLD) for _ in range(2)]
        service.add(*pods)
        load = Load(service.url, OLD)
        with load.running(CLIENTS):
            with load.event("upgrade, and the first half of a rotated token") as counts:
                pods = platform.replace(service, pods, f"{NEW} {OLD}")
            assert set(counts) == {"200"}, counts

            load.token = NEW
            with load.event("upgrade, and the second half of a rotated token") as counts:
                pods = platform.replace(service, pods, NEW)
            assert set(counts) == {"200"}, counts

            with load.event("upgrade to an archive that does not start") as counts:
                broken = tmp_path / "broken"
                shutil.copytree(archives, broken)
                (broken / "intents.mar").write_bytes((archives / "intents.mar").read_bytes()[:-4000])
                failed = platform.start(NEW, broken)
                assert failed.process.wait(STOP_S) == 1
            assert set(counts) == {"200"}, counts

            with load.event("scale down") as counts:
                platform.stop(service, pods.pop())
            assert set(counts) == {"200"}, counts

            with load.event("scale up") as counts:
                pods.append(platform.start(NEW))
                service.add(pods[-1])
            assert set(counts) == {"200"}, counts

            with load.event("killed worker") as counts:
                workers = pods[0].workers()
                workers[0].kill()
                # a request that the worker has may fail; another worker, or the other container, has all others
                wait_until(lambda: len({worker.pid for worker in pods[0].workers()} - {workers[0].pid}) == 2, STOP_S)
            assert sum(counts.values()) - counts["200"] <= 2 * CLIENTS, counts

            with load.event("killed container") as counts:
                family = psutil.Process(pods[0].process.pid).children(recursive=True)
                for process in family:
                    process.suspend()  # all at once, as the kernel ends a container
                for process in family:
                    process.kill()
                pods[0].process.wait(STOP_S)
                service.remove(pods.pop(0))
            # until a probe notices
            assert set(counts) <= {"200", "connection lost"}, counts
    service.close()
    assert load.client[LOST] == 0, load.client
    assert load.client.total() > 100
