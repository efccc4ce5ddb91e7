"""A Ray cluster on this machine that serves what `marina deploy ray` writes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
import yaml

from tests.ports import free_ports
from tests.waiting import wait_until

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
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
            # by default 15: clients on the same cores would starve the replicas
            "RAY_worker_niceness": "0",
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
