"""`marina score` on a Ray cluster of three nodes: actors and nodes die, and nodes come."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from marina.project import Project
from tests.conftest import ROOT
from tests.end_to_end.test_score import intent, rows, run, start, unbroken

__all__ = ["intent", "rows", "unbroken"]  # fixtures
pytestmark = pytest.mark.long


CLUSTER = """
import sys
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
for _ in range(2):
    cluster.add_node(num_cpus=1)
print(cluster.address, flush=True)
for line in sys.stdin:
    if line == "lose\\n":
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
    else:
        cluster.add_node(num_cpus=1)
cluster.shutdown()
"""


class Cluster:
    """A head without cores, and two nodes with a core each, all on this machine; see `cluster`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout
        assert process.stdin
        self._orders = process.stdin
        self.pid = process.pid
        self.address = process.stdout.readline().strip()

    def order(self, what: str) -> None:
        """Lose a node, or gain one."""
        self._orders.write(f"{what}\n")
        self._orders.flush()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    command = [sys.executable, "-W", "ignore", "-c", CLUSTER]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        yield Cluster(process)


def answers_in(project: Project, folder: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(project.root / folder).to_pylist()
    return sorted(found, key=lambda row: int(row["id"]))


def assert_same(found: list[dict[str, Any]], unbroken: list[dict[str, Any]]) -> None:
    """The same answers; scores differ a little as shards and so graphs differ."""
    assert [row["id"] for row in found] == [row["id"] for row in unbroken]
    for one, other in zip(found, unbroken, strict=True):
        assert (one["label"], one["error"], one["truncated"]) == (other["label"], other["error"], other["truncated"])
        assert one["score"] is None or abs(one["score"] - other["score"]) < 2e-5


def shards_in(project: Project, folder: str) -> int:
    return len(list((project.root / folder).glob("*.parquet")))


def wait_for(what: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 120
    while not what():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def actors(cluster: Cluster) -> list[psutil.Process]:
    """The actors among the processes that a cluster has started."""
    started = psutil.Process(cluster.pid).children(recursive=True)
    return [process for process in started if "ray::RayWorker" in " ".join(process.cmdline())]


def test_a_cluster_of_one_machine_gives_the_same_answers(
    intent: Project, rows: Path, unbroken: list[dict[str, Any]]
) -> None:
    same = ("intent", "--input", str(rows), "--output", "local", "--keep", "id", "--ray", "local", "--json")
    document = json.loads(run(intent, *same))
    assert (document["rows"], document["errors"], document["complete"]) == (len(unbroken), 2, True)
    assert_same(answers_in(intent, "local"), unbroken)


def test_actors_and_nodes_that_die_lose_nothing(
    intent: Project, rows: Path, unbroken: list[dict[str, Any]], cluster: Cluster
) -> None:
    arguments = ("intent", "--input", str(rows), "--output", "nodes", "--keep", "id", "--ray", cluster.address)
    process = start(intent, *arguments, "--json")
    wait_for(lambda: shards_in(intent, "nodes") >= 2, process)
    actors(cluster)[0].send_signal(signal.SIGKILL)
    done = shards_in(intent, "nodes")
    wait_for(lambda: shards_in(intent, "nodes") >= done + 3, process)
    cluster.order("lose")
    cluster.order("gain")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert json.loads(out)["rows"] == len(unbroken)
    assert_same(answers_in(intent, "nodes"), unbroken)


def test_a_job_that_was_killed_goes_on_with_or_without_ray(
    intent: Project, rows: Path, unbroken: list[dict[str, Any]], cluster: Cluster
) -> None:
    arguments = ("intent", "--input", str(rows), "--output", "killed", "--keep", "id")
    process = start(intent, *arguments, "--ray", cluster.address)
    wait_for(lambda: shards_in(intent, "killed") >= 3, process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    document = json.loads(run(intent, *arguments, "--json"))
    assert 0 < document["rows_here"] < document["rows"] == len(unbroken)
    assert_same(answers_in(intent, "killed"), unbroken)


def test_a_cluster_that_is_not_there_ends_in_one_line(intent: Project, rows: Path) -> None:
    said = run(intent, "intent", "--input", str(rows), "--output", "none", "--ray", "127.0.0.1:1", expect=1)
    assert "no Ray cluster at 127.0.0.1:1" in said
    assert said.count("\n") == 1


def test_ray_data_calls_the_scorer(intent: Project, rows: Path, unbroken: list[dict[str, Any]]) -> None:
    code = f"""
import json, pyarrow, ray
import marina

class Answer:
    def __init__(self):
        self.scorer = marina.Scorer({str(intent.model_store / "intent.mar")!r}, keep=["id"], core_groups="1,1")

    def __call__(self, table: pyarrow.Table) -> pyarrow.Table:
        return pyarrow.Table.from_batches([self.scorer(batch) for batch in table.combine_chunks().to_batches()])

ray.init(address="local", include_dashboard=False, log_to_driver=False)
rows = ray.data.read_parquet({str(rows)!r}).limit(3000)
answered = rows.map_batches(Answer, batch_format="pyarrow", batch_size=1000, concurrency=1, num_cpus=1)
answered.write_parquet({str(intent.root / "ray-data")!r})
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-c", code]
    ran = subprocess.run(
        command, capture_output=True, timeout=300, cwd=intent.root, env=environment, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert_same(answers_in(intent, "ray-data"), unbroken[:3000])
    assert pa.types.is_float64(pq.read_table(intent.root / "ray-data").schema.field("score").type)
