"""The dashboard's queries and those of docs/reference/metrics.md, run by a real Prometheus over a real server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest
import requests
import yaml

from tests.conftest import ROOT, make_project, save_tiny_model, write_spec
from tests.end_to_end.conftest import Server, run_marina, serving
from tests.ports import free_ports

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed"),
]

CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [alerts.yaml]
scrape_configs:
  - job_name: torchserve
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""
INTERVAL = "20s"
ALERT_INTERVAL = "10s"
TAKEN_AT = 10  # seconds, when a model loses its worker
# zero is the good answer
MAY_BE_ZERO = ("Failures per second", "Worker starts")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    project = make_project(tmp_path_factory.mktemp("metrics"))
    save_tiny_model(project.root / "weights", "text-classification")
    for name in ("m", "n"):
        shapes = {"exact": ["1x16", "4x64"]}
        write_spec(project, name, task="text-classification", source={"path": "weights"}, shapes=shapes)
    assert run_marina(project, "archive").returncode == 0
    with serving(project) as running:
        yield running


@pytest.fixture(scope="module")
def prometheus(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that has scraped the server while it answered, refused and failed requests."""
    folder = tmp_path_factory.mktemp("prometheus")
    (port,) = free_ports(1)
    alerts = (ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text()
    (folder / "alerts.yaml").write_text(re.sub("for: .*", "for: 1s", alerts).replace("[2m]", f"[{ALERT_INTERVAL}]"))
    (folder / "prometheus.yml").write_text(CONFIG.format(port=server.ports[2]))
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            for second in range(TAKEN_AT + 10):
                if second == TAKEN_AT:
                    take_workers(server, "n")
                for model in ("m", "n"):
                    taken = model == "n" and second >= TAKEN_AT
                    status = server.post(model, {"inputs": ["ok", "thanks " * 100]}).status_code
                    assert status == (503 if taken else 200)
                time.sleep(1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def take_workers(server: Server, model: str) -> None:
    """Leave a model without workers: TorchServe then answers 503."""
    headers = {"Authorization": f"Bearer {server.token('management')}"}
    parameters: dict[str, str | int] = {"min_worker": 0, "max_worker": 0, "synchronous": "true"}
    url = f"http://127.0.0.1:{server.ports[1]}/models/{model}"
    assert requests.put(url, params=parameters, headers=headers, timeout=60).status_code == 200


def results(prometheus: str, query: str) -> list[float]:
    """The values of a query, of every series."""
    windows = {"$__rate_interval": INTERVAL, "[1m]": f"[{INTERVAL}]", "[2m]": f"[{INTERVAL}]", "[5m]": f"[{INTERVAL}]"}
    for name, value in {**windows, "$model": ".*"}.items():
        query = query.replace(name, value)
    response = requests.get(f"{prometheus}/api/v1/query", params={"query": query}, timeout=10)
    assert response.status_code == 200, (query, response.text)
    return [float(one["value"][1]) for one in response.json()["data"]["result"]]


def dashboard() -> dict[str, list[str]]:
    """The queries of the dashboard, by the titles of panels."""
    document = json.loads((ROOT / "deploy" / "grafana" / "marina.json").read_text())
    return {panel["title"]: [target["expr"] for target in panel["targets"]] for panel in document["panels"]}


@pytest.mark.parametrize("title", dashboard())
def test_every_panel_shows_something(prometheus: str, title: str) -> None:
    for query in dashboard()[title]:
        values = results(prometheus, query)
        assert values, query
        assert all(value == value and value >= 0 for value in values), query  # noqa: PLR0124  NaN is not itself
        if title not in MAY_BE_ZERO:
            assert max(values) > 0, query


def test_refusals_and_workers_are_told_apart(prometheus: str) -> None:
    of_torchserve, of_workers = (results(prometheus, query) for query in dashboard()["Failures per second"])
    assert max(of_torchserve) > 0  # the 503 of the model without workers
    assert max(of_workers) == 0
    (ready,) = dashboard()["Workers that are READY"]
    by_model = results(prometheus, ready)
    assert max(by_model) == pytest.approx(1.0, abs=0.3)
    assert min(by_model) < 0.9  # the model whose worker was taken


def test_the_queries_of_the_docs_have_answers(prometheus: str) -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text().partition("## Useful queries")[2]
    queries = re.findall(r"^\| [^|]+ \| `(.+)` \|$", page, re.MULTILINE)
    assert len(queries) > 5
    for query in queries:
        assert results(prometheus, query), query


def test_an_alert_fires_for_the_model_without_workers(prometheus: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        answer = requests.get(f"{prometheus}/api/v1/alerts", timeout=10).json()
        firing = {
            (alert["labels"]["alertname"], alert["labels"].get("ModelName"))
            for alert in answer["data"]["alerts"]
            if alert["state"] == "firing"
        }
        if ("MarinaNoWorkerReady", "n") in firing:
            break
        assert time.monotonic() < deadline, firing
        time.sleep(1)
    assert ("MarinaNoWorkerReady", "m") not in firing
    assert ("MarinaServerDown", None) not in firing


def test_the_queries_of_the_alerts_are_valid(prometheus: str) -> None:
    for group in yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            results(prometheus, rule["expr"])
