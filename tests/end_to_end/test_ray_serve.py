"""What `marina deploy ray` writes, on a Ray cluster of two nodes, beside the real TorchServe."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest
import requests
import yaml

from marina.client import Client
from marina.project import Project
from tests.conftest import ENGINE, WORDS, make_project, save_tiny_model, write_spec
from tests.end_to_end.conftest import Server, run_marina, serving
from tests.ports import free_ports
from tests.waiting import wait_until

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
pytestmark = [pytest.mark.long, needs_ray]
TOKEN = "a-token-of-the-tests-0123456789"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
START_S = 400
TASKS = {"intents": "text-classification", "Search.v2": "sentence-embedding", "tags": "token-classification"}


class Cluster:
    """Two nodes on this machine, on ports of their own, with the applications of a folder."""

    def __init__(self, folder: Path, temp: Path) -> None:
        self.app, self.config = folder / "app", folder / "config.yaml"
        self._temp = temp
        (self.port, gcs, self.dashboard, stats, metrics, *nodes) = free_ports(11)
        self.url = f"http://127.0.0.1:{self.port}"
        self._gcs, self._nodes = gcs, nodes
        values = (line for line in (self.app / "ray.env").read_text().splitlines() if not line.startswith("#"))
        own = {
            "MARINA_TOKEN": TOKEN,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": TOKEN,
            "RAY_SERVE_HAPROXY_STATS_PORT": str(stats),
            "RAY_SERVE_HAPROXY_METRICS_PORT": str(metrics),
            "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(temp / "haproxy.cfg"),
            "RAY_USAGE_STATS_ENABLED": "0",
            "TMPDIR": str(temp),
        }
        self.environment = {**os.environ, **dict(line.split("=", 1) for line in values), **own}
        document = yaml.safe_load(self.config.read_text())
        # one proxy: two of them cannot share the ports of one machine
        document |= {"proxy_location": "HeadOnly", "http_options": {"host": "127.0.0.1", "port": self.port}}
        for application in document["applications"]:
            for deployment in application.get("deployments", []):
                deployment["autoscaling_config"] |= {"min_replicas": 1, "max_replicas": 2}
        self.document = document

    def run(self, *command: str, check: bool = True) -> str:
        program = [str(Path(sys.executable).parent / command[0]), *command[1:]]
        done = subprocess.run(
            program, cwd=self.app, env=self.environment, capture_output=True, text=True, timeout=START_S, check=False
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self) -> None:
        common = ("--num-cpus", "3", "--disable-usage-stats")
        agents = [f"--dashboard-agent-listen-port={self._nodes[0]}", f"--metrics-export-port={self._nodes[1]}"]
        # asked for by name, a dashboard that does not start is an error of this command
        dashboard = ("--include-dashboard=true", f"--dashboard-port={self.dashboard}")
        head = ("ray", "start", "--head", f"--port={self._gcs}", *dashboard)
        self.run(*head, *common, *agents, f"--temp-dir={self._temp}")
        agents = [f"--dashboard-agent-listen-port={self._nodes[2]}", f"--metrics-export-port={self._nodes[3]}"]
        self.run("ray", "start", f"--address=127.0.0.1:{self._gcs}", *common, *agents)
        self.deploy()
        deadline = time.monotonic() + START_S
        while self.status("/ping") != 200:
            assert time.monotonic() < deadline, self.run("serve", "status", f"-a=http://127.0.0.1:{self.dashboard}")
            time.sleep(1)

    def deploy(self) -> None:
        path = self._temp / "config.yaml"
        path.write_text(yaml.safe_dump(self.document))
        self.run("serve", "deploy", str(path), f"--address=http://127.0.0.1:{self.dashboard}")

    def application(self, name: str) -> dict[str, Any]:
        address = f"http://127.0.0.1:{self.dashboard}"
        return dict(yaml.safe_load(self.run("serve", "status", "-a", address))["applications"][name])

    def status(self, path: str) -> int:
        try:
            return requests.get(f"{self.url}{path}", timeout=10).status_code
        except requests.RequestException:
            return 0

    def stop(self) -> None:
        for process in psutil.process_iter(["pid", "cmdline"]):
            line = " ".join(process.info["cmdline"] or [])
            with suppress(psutil.Error):
                mine = process.environ().get("RAY_SERVE_HAPROXY_CONFIG_FILE_LOC") == str(self._temp / "haproxy.cfg")
                if (mine and process.pid != os.getpid()) or str(self._temp) in line:
                    process.kill()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = make_project(tmp_path_factory.mktemp("rayserve"))
    options: dict[str, dict[str, Any]] = {"token-classification": {"id2label": {0: "O", 1: "B-NAME", 2: "I-NAME"}}}
    for name, task in TASKS.items():
        save_tiny_model(made.root / "weights" / name, task, **options.get(task, {}))
        shapes = {"exact": ["1x16", "4x64"]}
        write_spec(made, name, task=task, engine=ENGINE, source={"path": f"weights/{name}"}, shapes=shapes)
    done = run_marina(made, "archive")
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="module")
def torchserve(project: Project) -> Iterator[Server]:
    with serving(project) as server:
        yield server


@pytest.fixture(scope="module")
def cluster(project: Project) -> Iterator[Cluster]:
    folder = project.root / "ray"
    done = run_marina(project, "deploy", "ray", *TASKS, "--output", str(folder))
    assert done.returncode == 0, done.stderr
    # pytest's own folders are too deep: a socket's path takes 107 bytes, and Ray adds 64 to 66
    with TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as temp:
        made = Cluster(folder, Path(temp))
        try:
            made.start()
            yield made
        finally:
            made.stop()


def some_requests(count: int) -> list[tuple[str, bytes, str]]:
    """URLs, bodies and their types, of every protocol, some of which are wrong."""
    random.seed(1)
    found = []
    for _ in range(count):
        name = random.choice(list(TASKS))
        texts = [" ".join(random.choices(WORDS, k=random.randint(1, 30))) for _ in range(random.randint(1, 5))]
        tensor = {"name": "text", "shape": [len(texts)], "datatype": "BYTES", "data": texts}
        predict, v1, v2 = f"predictions/{name}", f"v1/models/{name}:predict", f"v2/models/{name}/infer"
        lines = "\n".join(json.dumps({"inputs": text}) for text in [*texts, 7])
        found.append(
            random.choice(
                [
                    (predict, json.dumps({"inputs": texts}), "application/json"),
                    (predict, texts[0], "text/plain"),
                    (predict, lines, "application/jsonlines"),
                    (v1, json.dumps({"instances": texts}), "application/json"),
                    (v2, json.dumps({"id": "7", "inputs": [tensor]}), "application/json"),
                    (predict, json.dumps({"inputs": [*texts, 5]}), "application/json"),
                    (predict, '{"inputs": ', "application/json"),
                    (predict, json.dumps({"inputs": texts, "parameters": {"nope": 1}}), "application/json"),
                    (predict, "", "application/json"),
                ]
            )
        )
    return [(url, body.encode(), media_type) for url, body, media_type in found]


def alike(one: Any, other: Any) -> bool:
    """Whether two answers are equal but for rounding, as texts are computed in other batches."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) < 1e-3
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[name], other[name]) for name in one)
    return bool(one == other)


def parsed(answer: requests.Response) -> list[Any]:
    return [json.loads(line) for line in answer.text.splitlines()]


def test_answers_equal_those_of_torchserve(cluster: Cluster, torchserve: Server) -> None:
    asked = some_requests(2000)

    def ask(request: tuple[str, bytes, str]) -> tuple[requests.Response, requests.Response]:
        path, body, media_type = request
        answers = []
        for url, token in ((torchserve.url, torchserve.token()), (cluster.url, TOKEN)):
            headers = {"Authorization": f"Bearer {token}", "Content-Type": media_type}
            answers.append(requests.post(f"{url}/{path}", data=body, headers=headers, timeout=60))
        return answers[0], answers[1]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, asked))
    assert Counter(one.status_code for one, _ in answers)[200] > 800
    for request, (one, other) in zip(asked, answers, strict=True):
        assert (one.status_code, one.headers["content-type"]) == (other.status_code, other.headers["content-type"])
        assert alike(parsed(one), parsed(other)), (request, one.text, other.text)


def test_the_urls_of_a_server(cluster: Cluster) -> None:
    assert cluster.status("/v2/health/ready") == cluster.status("/v2/health/live") == cluster.status("/v2") == 200
    assert cluster.status("/v2/models/intents/ready") == cluster.status("/v1/models/tags") == 200
    assert cluster.status("/v2/models/other/ready") == cluster.status("/nothing") == 404
    for path in ("predictions/intents", "v1/models/intents:predict"):
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            refused = requests.post(f"{cluster.url}/{path}", json={"inputs": "ok"}, headers=headers, timeout=30)
            assert (refused.status_code, refused.json()["type"]) == (401, "Unauthorized")
    body = {"inputs": ["ok"], "model": "intents"}
    (tokens,) = requests.post(f"{cluster.url}/tokenize", json=body, headers=BEARER, timeout=30).json()
    assert [token["text"] for token in tokens] == ["[CLS]", "ok", "[SEP]"]
    info = requests.get(f"{cluster.url}/info", headers=BEARER, timeout=30).json()
    assert info["models"]["intents"]["model_id"] == "intents"
    named = {**BEARER, "X-Amzn-SageMaker-Custom-Attributes": "tags"}
    assert requests.post(f"{cluster.url}/invocations", json={"inputs": "ok"}, headers=named, timeout=30).ok
    unnamed = requests.post(f"{cluster.url}/invocations", json={"inputs": "ok"}, headers=BEARER, timeout=30)
    assert (unnamed.status_code, unnamed.json()["type"]) == (404, "UnknownModel")
    described = requests.get(f"{cluster.url}/v2/models/Search.v2", headers=BEARER, timeout=30).json()
    assert (described["task"], described["engine"]) == ("sentence-embedding", ENGINE)
    version = described["version"]
    for given, status in ((version, 200), ("other", 404)):
        url = f"{cluster.url}/predictions/Search.v2/{given}"
        assert requests.post(url, json={"inputs": "ok"}, headers=BEARER, timeout=30).status_code == status


class Load:
    """Asks all the time, in several threads, and counts the statuses of the answers."""

    def __init__(self, cluster: Cluster, retry: bool) -> None:
        self.statuses: Counter[str] = Counter()
        self._cluster, self._retry = cluster, retry
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(4)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        time.sleep(2)
        return self

    def __exit__(self, *_: object) -> None:
        time.sleep(2)
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        with Client.http(self._cluster.url, token=TOKEN, timeout_s=240, retry=self._retry) as client:
            while not self._end.is_set():
                try:
                    client.predict("intents", "change company address")
                    self.statuses["answered"] += 1
                except Exception as error:
                    self.statuses[f"{type(error).__name__}: {error}"] += 1


def test_a_replica_that_is_killed_takes_no_request_with_it(cluster: Cluster) -> None:
    described = requests.get(f"{cluster.url}/v2/models/intents", headers=BEARER, timeout=30).json()
    with Load(cluster, retry=True) as load:
        os.kill(described["pid"], signal.SIGKILL)
        wait_until(lambda: pid_of(cluster, "intents") not in (None, described["pid"]), START_S)
    assert set(load.statuses) == {"answered"}, load.statuses
    again = requests.get(f"{cluster.url}/v2/models/intents", headers=BEARER, timeout=60).json()
    assert again["pid"] != described["pid"]


def test_a_rolling_update_loses_no_request(cluster: Cluster, project: Project) -> None:
    (intents,) = (one for one in cluster.document["applications"] if one["name"] == "intents")
    (deployment,) = intents["deployments"]
    del deployment["autoscaling_config"]
    deployment["num_replicas"] = 2
    cluster.deploy()
    wait_for(cluster, "intents")
    before = requests.get(f"{cluster.url}/v2/models/intents", headers=BEARER, timeout=30).json()
    # another version becomes the default, and the old one stays at hand
    spec = project.models / "intents.yaml"
    spec.write_text(spec.read_text() + "long_text: reject\n")
    assert run_marina(project, "archive", "intents").returncode == 0
    (cluster.app / "archives" / "intents-2.mar").write_bytes((project.model_store / "intents.mar").read_bytes())
    intents["args"]["archives"] = ["intents-2.mar", "intents.mar"]
    with Load(cluster, retry=False) as load:
        cluster.deploy()
        wait_until(lambda: version_of(cluster, "intents") not in (None, before["version"]), START_S)
        wait_for(cluster, "intents")
    assert set(load.statuses) == {"answered"}, load.statuses
    after = requests.get(f"{cluster.url}/v2/models/intents", headers=BEARER, timeout=30).json()
    assert (before["long_text"], after["long_text"]) == ("truncate", "reject")
    long = {"inputs": " ".join(WORDS * 4)}
    for version, status in ((before["version"], 200), (after["version"], 400)):
        for path in (f"predictions/intents/{version}", f"v2/models/intents/versions/{version}/infer"):
            answer = requests.post(f"{cluster.url}/{path}", json=long, headers=BEARER, timeout=60)
            if answer.status_code == 503:  # later than its deadline, on a busy machine
                answer = requests.post(f"{cluster.url}/{path}", json=long, headers=BEARER, timeout=60)
            assert answer.status_code == status, answer.text


def wait_for(cluster: Cluster, name: str) -> None:
    wait_until(lambda: cluster.application(name)["status"] == "RUNNING", START_S, lambda: cluster.application(name))


def description_of(cluster: Cluster, name: str) -> dict[str, Any]:
    """What a replica says of its model; nothing while none answers."""
    try:
        answer = requests.get(f"{cluster.url}/v2/models/{name}", headers=BEARER, timeout=60)
    except requests.RequestException:
        return {}
    return dict(answer.json()) if answer.ok else {}


def pid_of(cluster: Cluster, name: str) -> object:
    return description_of(cluster, name).get("pid")


def version_of(cluster: Cluster, name: str) -> object:
    return description_of(cluster, name).get("version")
