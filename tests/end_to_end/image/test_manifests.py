"""What manifests say of a container, tried on one as Kubernetes, KServe and ECS would."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests
import yaml

from marina.client import Client
from marina.project import Project
from tests.end_to_end.conftest import run_marina
from tests.end_to_end.image.containers import BEARER, IMAGE, TOKEN, WRITABLE, Container, variables
from tests.end_to_end.images import Images, needs_buildah
from tests.ports import free_ports

pytestmark = [pytest.mark.long, needs_buildah]
# in place of AWS's own program: `aws s3 cp`, with a folder for each bucket
AWS = """#!/bin/sh
[ "$1 $2" = "s3 cp" ] || exit 2
shift 2
[ "$1" != --only-show-errors ] || shift
[ $# = 2 ] || exit 2
place() { case "$1" in s3://*) echo "$BUCKETS/${1#s3://}" ;; *) echo "$1" ;; esac; }
mkdir -p "$(dirname "$(place "$2")")" && cp "$(place "$1")" "$(place "$2")"
"""


class Loaded(NamedTuple):
    """A pod's archives, as its init container has loaded them."""

    folder: Path
    trusted: Path


@pytest.fixture
def loaded(project: Project, tmp_path: Path) -> Loaded:
    """The archives in a bucket, loaded by the command of the init container that the manifests have."""
    folder = tmp_path / "manifests"
    arguments = ["--archives", "s3://models/nlp", "--output", str(folder)]
    done = run_marina(project, "deploy", "kubernetes", "intents", "topics", *arguments)
    assert done.returncode == 0, done.stderr
    (deployment,) = yaml.safe_load_all((folder / "base" / "deployment.yaml").read_text())
    (loader,) = deployment["spec"]["template"]["spec"]["initContainers"]
    (mount,) = (mount for mount in loader["volumeMounts"] if mount["name"] == "archives")
    store, bin_folder = tmp_path / "store", tmp_path / "bin"
    store.mkdir()
    bin_folder.mkdir()
    program = bin_folder / "aws"
    program.write_text(AWS)
    program.chmod(0o755)
    environment = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "BUCKETS": str(tmp_path / "buckets")}
    (page,) = folder.glob("README.*")
    uploads = re.findall(r"^aws s3 cp .*$", page.read_text(), re.MULTILINE)
    *shell, script = loader["command"]
    download = [*shell, script.replace(mount["mountPath"], str(store))]
    for command in (*map(str.split, uploads), download):
        done = subprocess.run(command, cwd=project.root, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return Loaded(store, folder / "base" / "archives.sha256")


def test_archives_that_a_pod_has_loaded(images: Images, loaded: Loaded, tmp_path: Path) -> None:
    ports = free_ports(3)
    trusted = tmp_path / "trusted"
    trusted.mkdir()
    shutil.copy(loaded.trusted, trusted)
    for path in (trusted, loaded.folder, *loaded.folder.iterdir()):
        os.chown(path, 10001, 10001)
    given = {**variables(ports), "MARINA_TOKEN": TOKEN, "MARINA_TRUSTED": "/mnt/archives.sha256"}
    shown = {"/srv/marina/archives": loaded.folder, "/mnt": trusted}
    with images.running(IMAGE, given, tmp_path / "log", WRITABLE, files=shown) as process:
        container = Container(process, ports, tmp_path / "log")
        container.wait()
        with Client.http(container.url, token=TOKEN) as client:
            assert client.predict("topics", "ok")
    # another file in the bucket under the same name
    with (loaded.folder / "topics.mar").open("ab") as file:
        file.write(b"x")
    with images.running(IMAGE, given, tmp_path / "log", WRITABLE, files=shown) as process:
        assert process.wait(60) == 1
    assert "topics.mar is not among the trusted archives" in (tmp_path / "log").read_text()


class Pod:
    """What a manifest says of a pod, run as a container: its variables, ports, probes, volumes and hooks."""

    def __init__(self, spec: dict[str, Any], folder: Path) -> None:
        self.spec = spec
        (self.container,) = spec["containers"]
        self.log = folder / "log"
        self.secret = folder / "secret"
        self.secret.mkdir()
        (self.secret / "token").write_text(TOKEN)
        # the ports of a pod are its own; here they are those that are free
        ports = [port["containerPort"] for port in self.container["ports"]]
        self.ports = dict(zip(ports, free_ports(len(ports)), strict=True))

    @contextmanager
    def running(self, images: Images, archives: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
        security = self.container["securityContext"]
        assert security["readOnlyRootFilesystem"]
        user = str(self.spec.get("securityContext", security)["runAsUser"])
        os.chown(self.secret, int(user), int(user))
        kinds = {volume["name"]: volume for volume in self.spec["volumes"]}
        mounts = {one["mountPath"]: kinds[one["name"]] for one in self.container["volumeMounts"]}
        writable = [path for path, volume in mounts.items() if "emptyDir" in volume]
        files = {path: self.secret for path, volume in mounts.items() if "secret" in volume}
        given = {one["name"]: one["value"] for one in self.container["env"]}
        numbers = [*self.ports.values(), *free_ports(3)][:3]
        shown = {**files, **({"/mnt/models": archives} if archives else {})}
        with images.running(IMAGE, {**variables(numbers), **given}, self.log, writable, shown, user=user) as process:
            yield process

    def probe(self, name: str) -> int:
        """The status of a probe, as the kubelet would ask."""
        get = self.container[name]["httpGet"]
        named = {port.get("name"): port["containerPort"] for port in self.container["ports"]}
        port = self.ports[named.get(get["port"], get["port"])]
        try:
            return requests.get(f"http://127.0.0.1:{port}{get['path']}", timeout=10).status_code
        except requests.ConnectionError:
            return 0

    def start(self, process: subprocess.Popen[bytes], name: str) -> None:
        """Wait as long as a probe does."""
        probe = self.container[name]
        deadline = time.monotonic() + probe["periodSeconds"] * max(probe["failureThreshold"], 60)
        while self.probe(name) != 200 or "serving " not in self.log.read_text():
            assert process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.3)


def manifests(project: Project, target: str) -> Path:
    folder = project.root / target
    done = run_marina(project, "deploy", target, "intents", "topics", "--output", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


def test_the_deployment_of_kubernetes(images: Images, project: Project, tmp_path: Path) -> None:
    (deployment,) = yaml.safe_load_all((manifests(project, "kubernetes") / "base" / "deployment.yaml").read_text())
    service, monitored = yaml.safe_load_all((project.root / "kubernetes" / "base" / "service.yaml").read_text())
    pod = Pod(deployment["spec"]["template"]["spec"], tmp_path)
    named = {port["name"]: pod.ports[port["containerPort"]] for port in pod.container["ports"]}
    with pod.running(images) as process:
        pod.start(process, "startupProbe")
        assert pod.probe("readinessProbe") == pod.probe("livenessProbe") == 200
        http, grpc = (named[port["targetPort"]] for port in service["spec"]["ports"])
        with Client.http(f"http://127.0.0.1:{http}", token=TOKEN) as client:
            assert client.predict("topics", "ok")
        with Client.grpc(f"127.0.0.1:{grpc}", token=TOKEN) as client:
            assert client.predict("intents", "ok")
        metrics_port = named[monitored["spec"]["ports"][0]["targetPort"]]
        path = yaml.safe_load((project.root / "kubernetes" / "optional" / "servicemonitor.yaml").read_text())
        path = path["spec"]["endpoints"][0]["path"]
        found = requests.get(f"http://127.0.0.1:{metrics_port}{path}", timeout=10).text
        # what KEDA asks for
        assert "ts_queue_latency_microseconds" in found
        assert "ts_inference_requests_total" in found
        hook = pod.container["lifecycle"]["preStop"]["exec"]["command"]
        assert subprocess.run(["chroot", images.unpacked(IMAGE), hook[0], "0"], check=False).returncode == 0
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
        left = pod.spec["terminationGracePeriodSeconds"] - int(hook[1])
        assert time.monotonic() - started < left


def test_the_runtime_of_kserve(images: Images, project: Project, tmp_path: Path) -> None:
    folder = project.root / "kubernetes"
    if not folder.exists():
        manifests(project, "kubernetes")
    runtime, service = yaml.safe_load_all((folder / "optional" / "kserve.yaml").read_text())
    assert service["spec"]["predictor"]["model"]["runtime"] == runtime["metadata"]["name"]
    pod = Pod(runtime["spec"], tmp_path)
    store = tmp_path / "models"
    shutil.copytree(project.model_store, store)
    with pod.running(images, archives=store) as process:
        pod.start(process, "readinessProbe")
        url = f"http://127.0.0.1:{pod.ports[8080]}"
        infer = {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["ok"]}]}
        for path, body in (("v1/models/intents:predict", {"instances": ["ok"]}), ("v2/models/topics/infer", infer)):
            answer = requests.post(f"{url}/{path}", json=body, headers=BEARER, timeout=30)
            assert answer.status_code == 200, answer.text


def test_the_health_check_of_ecs(images: Images, project: Project, tmp_path: Path) -> None:
    (container,) = json.loads((manifests(project, "ecs") / "task-definition.json").read_text())["containerDefinitions"]
    ports = dict(zip((port["containerPort"] for port in container["portMappings"]), free_ports(3), strict=True))
    numbers = [ports[8080], ports[7070], ports[8082]]
    environment = {one["name"]: one["value"] for one in container["environment"]}
    given = {**environment, **variables(numbers), "MARINA_TOKEN": TOKEN}
    writable = [one["containerPath"] for one in container["mountPoints"]]
    check = container["healthCheck"]["command"]
    assert check[0] == "CMD"
    with images.running(IMAGE, given, tmp_path / "log", writable, user=container["user"]) as process:
        made = Container(process, numbers, tmp_path / "log")

        def healthy(name: str) -> int:
            with images.running(IMAGE, variables(numbers), tmp_path / name, writable, command=check[1:]) as asked:
                return asked.wait(60)

        assert healthy("early") == 1
        made.wait()
        assert healthy("later") == 0
