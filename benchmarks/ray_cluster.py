"""A Ray cluster of this machine alone, with archives on Ray Serve, as `marina deploy ray` starts it."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import requests
import yaml

from marina.bench.load.profile import Target
from marina.errors import MarinaError
from marina.project import Project
from marina.server.run.ports import free_ports

START_S = 180
MARK = "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC"  # distinguishes the cluster's processes from others


@contextmanager
def served_by_ray(project: Project, name: str, cores: int, folder: Path) -> Iterator[Target]:
    """Serve an archive of a project with Ray Serve: one replica on `cores` cores.

    Args:
        project: project of the archive.
        name: name of the model.
        cores: CPU cores of the replica, and all that Ray gets.
        folder: folder for the application; it must not exist.

    Raises:
        MarinaError: Ray is not installed, or does not serve the model in three minutes.
    """
    options = ["--output", str(folder), "--cpus", str(cores), "--replicas", "1"]
    _run([sys.executable, "-m", "marina", "deploy", "ray", name, *options], project.root, dict(os.environ))
    port, gcs, dashboard, stats, metrics, agent, exported = free_ports(7)
    app, token = folder / "app", secrets.token_hex(16)
    env_lines = [line for line in (app / "ray.env").read_text().splitlines() if not line.startswith("#")]
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["http_options"]["port"] = port
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    programs = Path(sys.executable).parent
    with tempfile.TemporaryDirectory(prefix="marina-ray-", ignore_cleanup_errors=True) as temp:
        environment = {
            **os.environ,
            **dict(line.split("=", 1) for line in env_lines),
            "MARINA_TOKEN": token,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": token,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_SERVE_HAPROXY_STATS_PORT": str(stats),
            "RAY_SERVE_HAPROXY_METRICS_PORT": str(metrics),
            MARK: f"{temp}/haproxy.cfg",
        }
        ports = [f"--port={gcs}", f"--dashboard-port={dashboard}", f"--dashboard-agent-listen-port={agent}"]
        start_options = [*ports, f"--metrics-export-port={exported}", f"--num-cpus={cores}", f"--temp-dir={temp}"]
        # with --include-dashboard=true, a dashboard that does not start is an error of this command
        head = ["start", "--head", "--include-dashboard=true", "--disable-usage-stats"]
        try:
            _run([str(programs / "ray"), *head, *start_options], app, environment)
            address = f"--address=http://127.0.0.1:{dashboard}"
            _run([str(programs / "serve"), "deploy", str(folder / "config.yaml"), address], app, environment)
            _wait(f"http://127.0.0.1:{port}/ping")
            yield Target("rest", "127.0.0.1", port, (f"/predictions/{name}",), name, token)
        finally:
            _end(f"{temp}/haproxy.cfg")


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    try:
        process = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise MarinaError("Ray is not installed", "pip install 'ray[serve]'") from None
    if process.returncode:
        last_line = (process.stderr.strip() or process.stdout.strip() or "it said nothing").splitlines()[-1]
        raise MarinaError(f"{Path(command[0]).name} {command[1]} failed: {last_line}")


def _wait(url: str) -> None:
    deadline = time.monotonic() + START_S
    while True:
        with suppress(requests.RequestException):
            if requests.get(url, timeout=10).status_code == 200:
                return
        if time.monotonic() > deadline:
            raise MarinaError(f"Ray Serve was not ready in {START_S} s")
        time.sleep(0.5)


def _end(mark: str) -> None:
    """End every process of the cluster; `ray stop` would end those of other clusters, and leave HAProxy."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                process.kill()
