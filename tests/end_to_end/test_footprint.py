"""A flood of the largest requests takes no more memory than was measured when its archives were packed."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from pathlib import Path

import pytest

from handlers.worker.archive.unpack import unpack
from marina.archive.describe import describe_archive
from marina.archive.footprint import Footprint
from marina.bench.server.footprint import memory_of
from marina.bench.server.largest_requests import LargestRequests
from marina.deploy.needs import LIMIT_ROOM
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import make_project, save_tiny_model, write_spec
from tests.end_to_end.conftest import Server, run_marina, serving

pytestmark = pytest.mark.long
FLOOD_S, CLIENTS = 12.0, 64
LEAST = 0.5  # of what was measured: of a tiny model that is the largest batch, which seldom comes by chance
TASKS = {"classify": "text-classification", "tags": "token-classification"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = make_project(tmp_path_factory.mktemp("footprint"))
    for name, task in TASKS.items():
        save_tiny_model(made.root / "weights" / name, task)
        source = {"path": f"weights/{name}"}
        write_spec(made, name, task=task, source=source, shapes={"exact": ["1x16", "4x64"]}, long_text="truncate")
    (made.models / "both.yaml").write_text(json.dumps({"name": "both", "bundle": list(TASKS)}))
    return made


def test_a_flood_takes_what_was_measured(project: Project, tmp_path: Path) -> None:
    packed = run_marina(project, "archive", "--json")
    assert packed.returncode == 0, packed.stderr
    documents = {document["name"]: document for document in json.loads(packed.stdout)}
    assert set(documents) == {*TASKS, "both"}
    again = run_marina(project, "archive", "classify")
    assert "MB at rest" in again.stdout
    bodies = []
    for name in TASKS:
        unpack(project.model_store / f"{name}.mar", tmp_path / name)
        spec = read_spec(project.models / f"{name}.yaml")
        requests = LargestRequests(spec, tmp_path / name / "artifact", bundle=False)
        bodies += [
            (name, body)
            for number in range(8)
            for body in (
                *(requests.many(int(share * requests.max_texts), number) for share in (0.5, 0.75, 1)),
                requests.long(requests.max_times, number),
            )
        ]
    with serving(project, *TASKS) as server:
        peaks = flood(server, bodies)
    torchserve = os.environ.get("MARINA_HOST", "torchserve") == "torchserve"
    for name, peak in peaks.items():
        archive = describe_archive(project.model_store / f"{name}.mar")
        assert archive.footprint == Footprint(**documents[name]["footprint"])
        assert LEAST < peak / archive.memory(torchserve) < LIMIT_ROOM, (name, peak, archive.footprint)


def flood(server: Server, bodies: list[tuple[str, bytes]]) -> dict[str, int]:
    """The most bytes of the worker of each model, while clients send what comes first."""
    pids = {name: server.worker_pids(name)[0] for name in TASKS}
    end = time.monotonic() + FLOOD_S
    answered = []

    def send(seed: int) -> None:
        rng = random.Random(seed)
        while time.monotonic() < end:
            name, body = rng.choice(bodies)
            answered.append(server.post(name, body).status_code)

    threads = [threading.Thread(target=send, args=(seed,)) for seed in range(CLIENTS)]
    for thread in threads:
        thread.start()
    peaks = dict.fromkeys(TASKS, 0)
    while time.monotonic() < end:
        for name, pid in pids.items():
            peaks[name] = max(peaks[name], sum(memory_of(pid)))
        time.sleep(0.01)
    for thread in threads:
        thread.join()
    assert 200 in answered
    assert set(answered) <= {200, 413, 503}
    return peaks


def test_a_worker_that_takes_more_than_the_spec_allows_is_refused(project: Project) -> None:
    path = project.models / "classify.yaml"
    text = path.read_text()
    try:
        path.write_text(text + "memory_mb: 20\n")
        refused = run_marina(project, "archive", "classify")
        assert refused.returncode == 1
        assert "MB, and memory_mb is 20" in refused.stderr
        path.write_text(text + "memory_mb: 900\n")
        assert run_marina(project, "archive", "classify").returncode == 0
    finally:
        path.write_text(text)
