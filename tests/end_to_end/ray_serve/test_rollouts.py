"""What clients get while replicas are replaced, removed and killed; `pytest -s` prints the counts of each event."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import requests

from marina.project import Project
from tests.conftest import WORDS
from tests.end_to_end.conftest import run_marina
from tests.end_to_end.load import LOST, Load
from tests.end_to_end.ray_serve.cluster import START_S, TOKEN, Cluster, needs_ray, pid_of, version_of, wait_for
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, needs_ray]
NEW = "new-token-0123456789"
CLIENTS = 1  # of each kind: more would slow the start of replicas on two cores
REPLICAS = 2


def test_clients_lose_nothing(cluster: Cluster, project: Project, tmp_path: Path) -> None:
    (intents,) = (application for application in cluster.document["applications"] if application["name"] == "intents")
    (deployment,) = intents["deployments"]
    del deployment["autoscaling_config"]
    deployment["num_replicas"] = REPLICAS
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKEN)
    restart(cluster, tokens, 0)
    before = described(cluster, TOKEN)
    load = Load(cluster.url, TOKEN)
    with load.running(CLIENTS):
        with load.event("killed replica") as counts:
            os.kill(before["pid"], signal.SIGKILL)
            seen: set[object] = set()
            wait_until(lambda: len(with_pid(cluster, seen) - {None, before["pid"]}) == REPLICAS, START_S)
            wait_for(cluster, "intents")
        # those that the replica has
        assert sum(counts.values()) - counts["200"] <= 2 * CLIENTS, counts

        with load.event("upgrade, the old version stays at hand") as counts:
            pack_another_version(cluster, project)
            intents["args"]["archives"] = ["intents-2.mar", "intents.mar"]
            cluster.deploy()
            wait_until(lambda: version_of(cluster, "intents") not in (None, before["version"]), START_S)
            wait_for(cluster, "intents")
        assert set(counts) == {"200"}, counts

        with load.event("first half of a rotated token") as counts:
            tokens.write_text(f"{NEW}\n{TOKEN}\n")
            restart(cluster, tokens, 1)
        assert set(counts) == {"200"}, counts

        load.token = NEW
        with load.event("second half of a rotated token") as counts:
            tokens.write_text(NEW)
            restart(cluster, tokens, 2)
        assert set(counts) == {"200"}, counts

        with load.event("upgrade to an archive that does not start, and back") as counts:
            (cluster.app / "archives" / "broken.mar").write_bytes(b"broken")
            intents["args"]["archives"] = ["broken.mar"]
            cluster.deploy()
            wait_until(lambda: cluster.application("intents")["status"] == "DEPLOY_FAILED", START_S)
            intents["args"]["archives"] = ["intents-2.mar", "intents.mar"]
            cluster.deploy()
            wait_for(cluster, "intents")
        assert set(counts) == {"200"}, counts

        with load.event("scale down") as counts:
            deployment["num_replicas"] = 1
            cluster.deploy()
            wait_for(cluster, "intents")
        assert set(counts) == {"200"}, counts
    assert load.client[LOST] == 0, load.client
    assert load.client.total() > 100
    check_versions(cluster, before, described(cluster, NEW))


def check_versions(cluster: Cluster, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Both versions answer, each as its own spec says."""
    assert (before["long_text"], after["long_text"]) == ("truncate", "reject")
    long = {"inputs": " ".join(WORDS * 4)}
    for version, status in ((before["version"], 200), (after["version"], 400)):
        for path in (f"predictions/intents/{version}", f"v2/models/intents/versions/{version}/infer"):
            answer = post(cluster, path, long)
            if answer.status_code == 503:  # later than its deadline, on a busy machine
                answer = post(cluster, path, long)
            assert answer.status_code == status, answer.text


def restart(cluster: Cluster, tokens: Path, number: int) -> None:
    """Replace the replicas one by one, which then read the file of tokens again."""
    for application in cluster.document["applications"]:
        variables = {"MARINA_TOKEN_FILE": str(tokens), "MARINA_RESTARTS": str(number)}
        application["runtime_env"] = {"env_vars": variables}
    cluster.deploy()
    for application in cluster.document["applications"]:
        wait_for(cluster, application["name"])


def post(cluster: Cluster, path: str, body: object) -> requests.Response:
    headers = {"Authorization": f"Bearer {NEW}"}
    return requests.post(f"{cluster.url}/{path}", json=body, headers=headers, timeout=60)


def with_pid(cluster: Cluster, seen: set[object]) -> set[object]:
    """The process numbers that replicas have told so far."""
    seen.add(pid_of(cluster, "intents"))
    return seen


def described(cluster: Cluster, token: str) -> dict[str, Any]:
    """What a replica says of its model."""
    headers = {"Authorization": f"Bearer {token}"}
    return dict(requests.get(f"{cluster.url}/v2/models/intents", headers=headers, timeout=30).json())


def pack_another_version(cluster: Cluster, project: Project) -> None:
    """Put an archive of a changed spec beside the others."""
    spec = project.models / "intents.yaml"
    spec.write_text(spec.read_text() + "long_text: reject\n")
    assert run_marina(project, "archive", "intents").returncode == 0
    (cluster.app / "archives" / "intents-2.mar").write_bytes((project.model_store / "intents.mar").read_bytes())
