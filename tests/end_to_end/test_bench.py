"""`marina bench` against a real TorchServe, with a tiny model: what is measured must be what was done."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT, save_tiny_model, write_spec
from tests.end_to_end.conftest import Server, run_marina, serving

from marina.project import Project, project_beside  # isort: skip

pytestmark = pytest.mark.long

QUICK = ("--warm-up", "0.2", "--seconds", "1", "--connections", "4")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    project = project_beside(Project(ROOT), tmp_path_factory.mktemp("bench"))
    save_tiny_model(project.root / "weights", "text-classification")
    (project.root / "texts.csv").write_text("text\nchange company address\nok thanks\n")
    fields: dict[str, Any] = {"task": "text-classification", "source": {"path": "weights"}, "examples": "texts.csv"}
    write_spec(project, "m", **fields, shapes={"exact": ["1x16", "4x64"]}, core_groups="1")
    assert run_marina(project, "archive", "m").returncode == 0
    with serving(project, "m") as running:
        yield running


def measured(server: Server, *arguments: str) -> dict[str, Any]:
    ran = server.marina("bench", "run", "m", *arguments, "--json")
    assert ran.returncode == 0, ran.stderr
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


@pytest.mark.parametrize("protocol", [(), ("--grpc",)])
def test_what_was_measured_is_what_the_server_counted(server: Server, protocol: tuple[str, ...]) -> None:
    document = measured(server, *QUICK, "--instances", "3", *protocol)
    (entry,) = document["entries"]
    (found,) = entry["rounds"]
    assert found["errors"] == {}
    assert found["requests"] > 0
    assert found["instances"] == 3 * found["requests"]
    # calls of the worker, warm-up and end included, have a row for every instance that was answered, unless it equals
    # another of its batch: there are only two texts
    rows = sum(int(shape.split("x")[0]) * calls for shape, calls in found["server"]["calls"].items())
    assert 0.3 < found["server"]["repeated"] < 1
    assert rows >= found["instances"] * (1 - found["server"]["repeated"])
    assert sum(found["server"]["stage_share"].values()) == pytest.approx(1, abs=0.01)
    assert found["server"]["worker_ms"] < found["latency_ms"]["mean"]
    configuration = entry["configuration"]
    assert configuration["shapes"] == ["1x16", "4x64"]
    assert (configuration["workers"], configuration["core_groups"], configuration["connections"]) == (1, "1", 4)
    assert configuration["texts"] == "texts.csv"
    folder = server.project.root / "build" / "bench" / "runs" / "m"
    assert json.loads((folder / "result.json").read_text()) == document
    assert (folder / "report.html").stat().st_size > 10_000
    assert (folder / "result.csv").read_text().count("\n") == 2


def test_an_open_loop_keeps_its_rate_and_a_count_its_number(server: Server) -> None:
    document = measured(server, "--rate", "50", "--seconds", "2", "--warm-up", "0.2", "--texts", "mix")
    (found,) = document["entries"][0]["rounds"]
    assert found["throughput"] == pytest.approx(50, rel=0.4)
    assert document["entries"][0]["configuration"]["arrivals"] == "poisson"
    (found,) = measured(server, "--requests", "33", "--warm-up", "0")["entries"][0]["rounds"]
    assert found["requests"] == 33


def test_the_bare_graphs_and_a_server_elsewhere(server: Server) -> None:
    (found,) = measured(server, "--bare", "--seconds", "1")["entries"][0]["rounds"]
    assert found["throughput"] > 0
    assert found["latency_ms"]["p50"] > 0
    url = f"http://127.0.0.1:{server.ports[0]}"
    elsewhere = measured(server, *QUICK, "--url", url, "--token", server.token(), "--instance", "inf2.xlarge")
    assert elsewhere["entries"][0]["rounds"][0]["server"] is None
    assert elsewhere["price"]["per_hour"] == 0.76
    assert server.token() not in json.dumps(elsewhere)


def test_the_page_and_the_terminal_show_the_same(server: Server) -> None:
    ran = server.marina("bench", "run", "m", *QUICK, "--price", "1")
    assert ran.returncode == 0, ran.stderr
    assert "$/1M" in ran.stdout
    assert "ms in the worker" in ran.stdout
    stored = server.project.root / "build" / "bench" / "runs" / "m" / "result.json"
    again = server.marina("bench", "report", str(stored), "--out", "again")
    assert again.stdout.splitlines()[:2] == ran.stdout.splitlines()[:2]
    assert (server.project.root / "again" / "report.html").read_text() == (stored.parent / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nosuch"], "nosuch"),
        (["run", "m", "--url", "http://127.0.0.1:1"], "no answer from http://127.0.0.1:1"),
        (["run", "m", "--url", "https://example.com"], "no TLS"),
        (["run", "m", "--texts", "missing.csv"], "missing.csv"),
        (["run", "m", "--seconds", "1", "--requests", "1"], "give one"),
        (["run", "m", "--instance", "p5.48xlarge", "--seconds", "1"], "no price is known"),
        (["run", "m", "--bare", "--rate", "5", "--grpc"], "--grpc, --rate has no meaning with --bare"),
        (["run", "m", "--engine", "neuron"], "--engine has no meaning for a model that is served"),
        (["table", "chess"], "there is no table chess"),
        (["sweep", "missing.yaml"], "missing.yaml cannot be read"),
        (["report", "missing.json"], "missing.json is not a result"),
    ],
)
def test_wrong_input_is_one_line(server: Server, arguments: list[str], message: str) -> None:
    ran = server.marina("bench", *arguments)
    assert ran.returncode == 1
    assert message in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1, ran.stderr


def test_a_wrong_token_is_refused_before_anything_is_measured(server: Server) -> None:
    url = f"http://127.0.0.1:{server.ports[0]}"
    ran = server.marina("bench", "run", "m", "--url", url, "--token", "wrong")
    assert ran.returncode == 1
    assert "token" in ran.stderr.lower()


def test_a_sweep_serves_each_combination_on_a_server_of_its_own(
    project: Project, add_tiny: Callable[..., Path]
) -> None:
    add_tiny("m")
    sweep = {
        "model": "m",
        "vary": {"core_groups": ["1", "5000"], "batch_size": [8], "connections": [1, 4]},
        "rounds": 1,
        "window_s": 0.5,
        "warm_up_s": 0.1,
    }
    (project.root / "bench.yaml").write_text(yaml.safe_dump(sweep))
    ran = run_marina(project, "bench", "sweep", "bench.yaml", "--json")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)["entries"]
    loads = [(one["configuration"]["batch_size"], one["configuration"]["connections"]) for one in found]
    assert loads == [(8, 1), (8, 4)]
    assert all(one["rounds"][0]["requests"] > 0 for one in found)
    # what cannot be served here is said in a line, and the others are measured
    assert len(ran.stderr.strip().splitlines()) == 1
    assert "a core group of 5000 is configured" in ran.stderr
    again = run_marina(project, "bench", "sweep", "bench.yaml", "--json")
    assert [one["rounds"] for one in json.loads(again.stdout)["entries"]] == [one["rounds"] for one in found]
    state = subprocess.run(["pgrep", "-f", str(project.root)], capture_output=True, text=True, check=False)
    assert state.stdout == "", "a server is left"
