"""The Neuron engines through the real TorchServe, on the cores of a stand-in for the Neuron runtime."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import requests

from handlers.worker.placement.leases import Holder, read_holders
from marina.project import Project
from tests.conftest import make_project, save_tiny_model, scores, write_spec
from tests.end_to_end.conftest import Server, run_marina, serving
from tests.standin import events, standin_environment

pytestmark = pytest.mark.long

KILLS = int(os.environ.get("MARINA_TEST_KILLS", "3"))
TEXTS = ["change company address", "ok", "please send the latest invoice to our account manager", "wireless mouse"]
READY_S = 120


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Archives for Inf1 with 4 cores, as single cores and as a pipeline, and for Inf2, compiled without a device."""
    project = make_project(tmp_path_factory.mktemp("neuron"))
    save_tiny_model(project.root / "tiny", "text-classification")
    common = {"task": "text-classification", "source": {"path": "tiny"}}
    four = {"engine": "neuron", "core_groups": "1,1,1,1", "shapes": {"exact": ["1x16", "4x32", "2x32p"]}}
    pipeline = {"engine": "neuron", "core_groups": "4", "mode": "pipeline", "neuron": {"pipeline_cores": 4}}
    wide = {"engine": "neuronx", "core_groups": "16", "mode": "data-parallel", "shapes": {"exact": ["2x32"]}}
    write_spec(project, "four", **common, **four)
    write_spec(project, "pipe", **common, **pipeline, shapes={"exact": ["1x32", "2x32p"]})
    write_spec(project, "wide", **common, **wide)
    write_spec(project, "flex", **common, **{**wide, "core_groups": "4"})
    half = {**pipeline, "core_groups": "4", "neuron": {"pipeline_cores": 2}}
    write_spec(project, "copies", **common, **half, shapes={"exact": ["1x32"]})
    environment = standin_environment(project.root / "build-host", 0)
    del environment["NEURON_STANDIN"]  # no device where it is compiled
    packed = run_marina(project, "archive", **environment)
    assert packed.returncode == 0, packed.stderr
    return project


@pytest.fixture
def project(tmp_path: Path, store: Project) -> Project:
    """A project with these archives, to serve."""
    return with_archives(tmp_path / "project", store)


def with_archives(folder: Path, store: Project) -> Project:
    project = make_project(folder)
    for archive in store.model_store.glob("*.mar"):
        shutil.copy(archive, project.model_store)
    return project


def holders(state: Path) -> list[Holder]:
    return read_holders(state / "leases" / "neuron")


def check_answers(server: Server, model: str, store: Project) -> None:
    """Answers are those of the Hugging Face model, but for rounding to bf16."""
    from transformers import pipeline

    expected = pipeline("text-classification", model=str(store.root / "tiny"), top_k=None)(TEXTS)
    found = server.post(model, {"inputs": TEXTS}).json()
    for answer, right in zip(found, expected, strict=True):
        for label, score in scores(right).items():
            assert abs(scores(answer)[label] - score) < 5e-3


def wait_until(condition, seconds: float = READY_S) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@contextmanager
def load(server: Server, model: str) -> Iterator[dict[int | str, int]]:
    """Requests without end from four clients; gives how often each status, or error, was met."""
    counts: dict[int | str, int] = {}
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            try:
                status: int | str = server.post(model, {"inputs": random.choice(TEXTS)}).status_code
            except requests.RequestException as error:
                status = type(error).__name__
            counts[status] = counts.get(status, 0) + 1
            time.sleep(0 if status == 200 else 0.2)

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for client in clients:
        client.start()
    try:
        yield counts
    finally:
        done.set()
        for client in clients:
            client.join()


def test_four_workers_have_a_core_each_and_take_it_back_when_killed(
    project: Project, store: Project, tmp_path: Path
) -> None:
    state = tmp_path / "host"
    environment = standin_environment(state, 4)
    with serving(project, "four", **environment) as server:
        check_answers(server, "four", store)
        with load(server, "four") as counts:
            for _ in range(KILLS):
                before = server.worker_pids("four")
                victim = random.choice(before)
                os.kill(victim, signal.SIGKILL)
                wait_until(lambda victim=victim: len(set(server.worker_pids("four")) - {victim}) == 4)
                held = [core for holder in holders(state) for core in holder.cores]
                assert sorted(held) == [0, 1, 2, 3]
                assert {holder.pid for holder in holders(state)} == set(server.worker_pids("four"))
        assert counts[200] > 0
        # those of a worker that was killed; TorchServe forgets what it hands to a worker as that dies
        assert set(counts) <= {200, 500, 503, 507, "ReadTimeout"}
        assert counts.get("ReadTimeout", 0) <= KILLS
        print(counts)
        check_answers(server, "four", store)
        check_scaling(server, state)
        check_an_upgrade_without_free_cores(server, store)
    assert holders(state) == []
    assert events(state, "refused") == []
    claimed = [event["environment"] for event in events(state)]
    assert {found["NEURON_RT_VISIBLE_CORES"] for found in claimed} == {"0", "1", "2", "3"}
    assert all(found["NEURON_RT_NUM_CORES"] is found["NEURONCORE_GROUP_SIZES"] is None for found in claimed)
    assert claimed[0]["NEURON_PROCESS_TAG"].startswith("four-nc")


def check_scaling(server: Server, state: Path) -> None:
    """Down and up again."""
    headers = {"Authorization": f"Bearer {server.token('management')}"}
    url = f"http://127.0.0.1:{server.ports[1]}/models/four"
    for workers in (1, 4):
        scaled = requests.put(
            f"{url}?min_worker={workers}&max_worker={workers}&synchronous=true", headers=headers, timeout=READY_S
        )
        assert scaled.status_code == 200, scaled.text
        wait_until(lambda workers=workers: len(holders(state)) == workers == len(server.worker_pids("four")))


def check_an_upgrade_without_free_cores(server: Server, store: Project) -> None:
    """It is refused with the outage that the other way has, and that way works."""
    path = server.project.model_store / "four.mar"
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
        version = json.loads(contents["MAR-INF/MANIFEST.json"])["model"]["modelVersion"].encode()
    contents["MAR-INF/MANIFEST.json"] = contents["MAR-INF/MANIFEST.json"].replace(version, b"new")
    with zipfile.ZipFile(path.with_name(".new"), "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    path.with_name(".new").replace(path)
    refused = server.marina("upgrade", "four")
    assert refused.returncode == 1
    assert "no group of cores is free for a second version of four; marina upgrade four --replace" in refused.stderr
    assert re.search(r"four answers 503 for about \d+ s", refused.stderr)
    check_answers(server, "four", store)
    assert server.marina("upgrade", "four", "--replace").returncode == 0
    check_answers(server, "four", store)
    (model,) = json.loads(server.marina("status", "--json").stdout)["models"]
    assert (model["version"], model["ready"]) == ("new", 4)


def test_servers_of_one_host_share_its_cores(project: Project, store: Project, tmp_path: Path) -> None:
    """With two cores each, as the environment says, whatever the archive has."""
    state = tmp_path / "host"
    environment = standin_environment(state, 4, NEURONCORE_GROUP_SIZES="1,1", NEURON_RT_NUM_CORES="1")
    second = with_archives(tmp_path / "second", store)
    with serving(project, "four", **environment) as one, serving(second, "four", **environment) as two:
        pids = one.worker_pids("four") + two.worker_pids("four")
        wait_until(lambda: {holder.pid for holder in holders(state)} == set(pids))
        assert sorted(core for holder in holders(state) for core in holder.cores) == [0, 1, 2, 3]
        check_answers(one, "four", store)
        check_answers(two, "four", store)


def test_groups_of_unequal_sizes_are_taken_as_the_environment_lists_them(
    project: Project, store: Project, tmp_path: Path
) -> None:
    """AWS's own example; a model that is alone has a worker for each group."""
    state = tmp_path / "host"
    with serving(project, "flex", **standin_environment(state, 8, NEURONCORE_GROUP_SIZES="3,4,1")) as server:
        check_answers(server, "flex", store)
        assert sorted(holder.cores for holder in holders(state)) == [(0, 1, 2, 3), (4, 5, 6), (7,)]
        for _ in range(8):
            assert server.post("flex", {"inputs": TEXTS * 5}).status_code == 200
        # the largest group answers alone, too
        victim = next(holder.pid for holder in holders(state) if len(holder.cores) == 4)
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: len(server.worker_pids("flex")) == 3 and victim not in server.worker_pids("flex"))
        # the new process takes its cores a moment after it has begun
        wait_until(lambda: sorted(holder.cores for holder in holders(state)) == [(0, 1, 2, 3), (4, 5, 6), (7,)])


def test_models_share_the_groups_of_the_environment(project: Project, store: Project, tmp_path: Path) -> None:
    """Each has as many workers as its archive, and takes groups of its own size first."""
    state = tmp_path / "host"
    environment = standin_environment(state, 8, NEURONCORE_GROUP_SIZES="1,1,4,1,1")
    with serving(project, "four", "pipe", **environment) as server:
        check_answers(server, "four", store)
        check_answers(server, "pipe", store)
        sizes = [(holder.model, len(holder.cores)) for holder in holders(state)]
        assert sorted(sizes) == [*[("four", 1)] * 4, ("pipe", 4)]
        elsewhere = {**environment, "NEURONCORE_GROUP_SIZES": "8"}
        refused = run_marina(project, "register", "flex", **elsewhere)
        assert refused.returncode == 1
        # from a shell that has other variables than the server
        assert "NEURONCORE_GROUP_SIZES=1,1,4,1,1 leaves 0 core groups, and flex 4 need 1" in refused.stderr


def test_more_cores_than_there_are_are_refused_before_anything_starts(project: Project, tmp_path: Path) -> None:
    refused = run_marina(project, "serve", "four", "pipe", **standin_environment(tmp_path / "host", 4))
    assert refused.returncode == 1
    assert "the core groups of four 1,1,1,1 and pipe 4 need 8 NeuronCores, and 4 can be used here" in refused.stderr
    assert not (project.run / "logs").exists()


def test_a_worker_too_many_says_so_once_and_waits(project: Project, store: Project, tmp_path: Path) -> None:
    """As `torchserve --start` and a registration with too many workers have it."""
    state = tmp_path / "host"
    with serving(project, "four", **standin_environment(state, 4)) as server:
        refused = server.marina("scale", "four", "5")
        assert "four can have 4 workers at most, with core_groups=1,1,1,1" in refused.stderr
        url = f"http://127.0.0.1:{server.ports[1]}/models/four"
        headers = {"Authorization": f"Bearer {server.token('management')}"}
        requests.put(f"{url}?min_worker=5&max_worker=5", headers=headers, timeout=READY_S)
        log = project.run / "logs" / "model_log.log"
        wait_until(lambda: "no core group is left for this worker" in log.read_text())
        workers = {worker["pid"] for worker in requests.get(url, headers=headers, timeout=10).json()[0]["workers"]}
        time.sleep(5)
        again = {worker["pid"] for worker in requests.get(url, headers=headers, timeout=10).json()[0]["workers"]}
        assert workers == again
        assert len(workers) == 5
        assert log.read_text().count("no core group is left for this worker") == 1
        assert "marina scale four 4" in log.read_text()
        check_answers(server, "four", store)
        requests.put(f"{url}?min_worker=4&max_worker=4", headers=headers, timeout=READY_S)
        wait_until(lambda: len(server.worker_pids("four")) == 4)
        check_answers(server, "four", store)


def test_a_group_holds_as_many_copies_of_a_pipeline_as_fit(project: Project, store: Project, tmp_path: Path) -> None:
    state = tmp_path / "host"
    with serving(project, "copies", **standin_environment(state, 4)) as server:
        check_answers(server, "copies", store)
        assert {(event["copies"], event["pipeline_cores"]) for event in events(state, "loaded")} == {(2, 2)}


def test_a_pipeline_has_the_whole_group(project: Project, store: Project, tmp_path: Path) -> None:
    state = tmp_path / "host"
    with serving(project, "pipe", **standin_environment(state, 4)) as server:
        check_answers(server, "pipe", store)
        assert [holder.cores for holder in holders(state)] == [(0, 1, 2, 3)]
        assert events(state)[-1]["environment"]["NEURON_RT_VISIBLE_CORES"] == "0-3"


def test_data_parallel_cores_share_a_batch_on_the_cores_that_a_scheduler_allots(
    project: Project, store: Project, tmp_path: Path
) -> None:
    """16 of 32 cores, as the Kubernetes device plugin says it."""
    state = tmp_path / "host"
    visible = ",".join(str(core) for core in range(8, 24))
    with serving(project, "wide", **standin_environment(state, 32, NEURON_RT_VISIBLE_CORES=visible)) as server:
        check_answers(server, "wide", store)
        assert [holder.cores for holder in holders(state)] == [tuple(range(8, 24))]
        assert server.post("wide", {"inputs": TEXTS * 12}).status_code == 200
        (pid,) = server.worker_pids("wide")
        assert psutil.Process(pid).is_running()
