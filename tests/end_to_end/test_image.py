"""What `marina deploy image` writes, built and run."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import requests
import yaml

from handlers.worker.artifact import sha256_of
from marina.archive.describe import describe_archive
from marina.client import Client
from marina.deploy.hosts import default_host
from marina.deploy.needs import needs_of
from marina.errors import UnauthorizedError
from marina.project import Project
from tests.conftest import ENGINE, make_project, save_tiny_model, write_spec
from tests.end_to_end.cgroups import memory_cgroup, needs_memory_cgroup
from tests.end_to_end.conftest import run_marina
from tests.end_to_end.images import Images, needs_buildah
from tests.ports import free_ports

pytestmark = [pytest.mark.long, needs_buildah]
TOKEN = "A-token-of-the-tests-" + "0123456789abcdef" * 4  # longer than nginx's own tables take
IMAGE, BASE = "localhost/marina-test", "localhost/debian-test"
WRITABLE = ("/tmp", "/run/marina")
LIMIT = 1.5e9
HOST = os.environ.get("MARINA_HOST", default_host("cpu"))  # of the images
WORKER_PROGRAMS = ("model_service_worker.py", "handlers.worker.hosts.direct")
MAX_BODY_BYTES = 500_000  # what serving.max_body_bytes is by default
# in place of AWS's own program: `aws s3 cp`, with a folder for each bucket
AWS = """#!/bin/sh
[ "$1 $2" = "s3 cp" ] || exit 2
shift 2
[ "$1" != --only-show-errors ] || shift
[ $# = 2 ] || exit 2
place() { case "$1" in s3://*) echo "$BUCKETS/${1#s3://}" ;; *) echo "$1" ;; esac; }
mkdir -p "$(dirname "$(place "$2")")" && cp "$(place "$1")" "$(place "$2")"
"""
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = make_project(tmp_path_factory.mktemp("deployed"))
    save_tiny_model(made.root / "weights", "text-classification")
    for name in ("intents", "topics"):
        fields = {"source": {"path": "weights"}, "shapes": {"exact": ["1x16", "4x64"]}, "core_groups": "1,1"}
        write_spec(made, name, task="text-classification", engine=ENGINE, **fields)
    done = run_marina(made, "archive")
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="module")
def context(project: Project) -> Path:
    folder = project.root / "image"
    done = run_marina(project, "deploy", "image", "intents", "topics", "--output", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def images(context: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    folder = tmp_path_factory.mktemp("images")
    made = Images(folder)
    made.make_base(BASE)
    made.build(context, IMAGE, BASE)
    yield made
    made.buildah("rm", "--all")
    shutil.rmtree(folder, ignore_errors=True)


class Container:
    """A running container and its ports."""

    def __init__(self, process: subprocess.Popen[bytes], ports: list[int], log: Path) -> None:
        self.process, self.ports, self.log = process, ports, log
        self.url = f"http://127.0.0.1:{ports[0]}"

    def wait(self) -> None:
        """Wait until it is ready, and says so: a signal or a death before is one of the start."""
        deadline = time.monotonic() + 400
        while self.ping() != 200 or "serving " not in self.log.read_text():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.2)

    def ping(self, path: str = "/ping") -> int:
        try:
            return requests.get(f"{self.url}{path}", timeout=10).status_code
        except requests.ConnectionError:
            return 0

    def workers(self) -> list[psutil.Process]:
        found = psutil.Process(self.process.pid).children(recursive=True)
        return [one for one in found if any(part.endswith(WORKER_PROGRAMS) for part in one.cmdline())]


def variables(ports: list[int]) -> dict[str, str]:
    names = ("MARINA_PORT", "MARINA_GRPC_PORT", "MARINA_METRICS_PORT")
    return {name: str(port) for name, port in zip(names, ports, strict=True)}


@contextmanager
def serving(images: Images, log: Path, cgroup: Path | None = None) -> Iterator[Container]:
    ports = free_ports(3)
    given = {**variables(ports), "MARINA_TOKEN": TOKEN}
    with images.running(IMAGE, given, log, WRITABLE, cgroup=cgroup) as process:
        made = Container(process, ports, log)
        made.wait()
        yield made


@pytest.fixture(scope="module")
def container(images: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """For tests that leave it as it was."""
    with serving(images, tmp_path_factory.mktemp("container") / "log") as made:
        yield made


def test_it_answers_with_its_token_only(container: Container) -> None:
    with Client.http(container.url, token=TOKEN) as client:
        assert len(client.predict("intents", ["change company address", "ok"])) == 2
    url = f"{container.url}/predictions/intents"
    for headers in ({}, {"Authorization": f"Bearer {TOKEN.lower()}"}, {"Authorization": TOKEN}):
        refused = requests.post(url, json={"inputs": "ok"}, headers=headers, timeout=30)
        assert (refused.status_code, refused.json()["type"]) == (401, "Unauthorized")
    # as KServe, and a client of the Open Inference Protocol, ask
    v1 = requests.post(
        f"{container.url}/v1/models/intents:predict", json={"instances": ["ok"]}, headers=BEARER, timeout=30
    )
    assert v1.status_code == 200, v1.text
    assert container.ping("/v2/health/ready") == container.ping("/v2/health/live") == 200
    # management is not for others
    assert container.ping("/models") == container.ping("/predictions") == 404


@needs_memory_cgroup
def test_a_flood_of_large_bodies_kills_nothing(images: Images, project: Project, tmp_path: Path) -> None:
    """64 connections with bodies of the largest size, and 64 with larger ones, in the memory that a pod would get."""
    archives = [describe_archive(project.model_store / f"{name}.mar") for name in ("intents", "topics")]
    limit = int(needs_of(archives, "cpu", 2, None, HOST).memory_limit)
    words = json.dumps({"inputs": "word " * 99_900})  # 499,513 bytes

    def send(url: str, size: int) -> int:
        """The status of the answer; 0 if the connection was closed before it."""
        body = words if size < MAX_BODY_BYTES else words + " " * (size - len(words))
        try:
            return requests.post(f"{url}/predictions/intents", data=body, headers=BEARER, timeout=120).status_code
        except requests.ConnectionError:
            return 0

    with memory_cgroup(limit) as cgroup, serving(images, tmp_path / "log", cgroup) as flooded:
        workers = {worker.pid for worker in flooded.workers()}
        with ThreadPoolExecutor(64) as pool:
            allowed = list(pool.map(partial(send, flooded.url), [len(words)] * 256))
            refused = list(pool.map(partial(send, flooded.url), [6_400_000] * 64))
        assert set(allowed) <= {400, 503}  # more characters than a model takes, and more such bodies than memory is for
        assert 400 in allowed
        # nginx refuses them by their headers, and closes the connection on some that still send
        assert set(refused) <= {0, 413}
        assert 413 in refused
        assert flooded.process.poll() is None
        assert {worker.pid for worker in flooded.workers()} == workers
        with Client.http(flooded.url, token=TOKEN) as client:
            assert len(client.predict("intents", ["change company address", "ok"])) == 2


def test_the_urls_of_sagemaker(container: Container) -> None:
    def invoke(**headers: str) -> requests.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"{container.url}/invocations"
        return requests.post(url, json={"inputs": "ok"}, headers={**BEARER, **named}, timeout=30)

    assert invoke(X_Amzn_SageMaker_Custom_Attributes="topics").status_code == 200
    assert invoke().json()["type"] == "UnknownModel"
    assert requests.post(f"{container.url}/invocations", data=b"", timeout=30).status_code == 401
    parameters = requests.get(f"{container.url}/execution-parameters", timeout=10).json()
    assert parameters == {"MaxConcurrentTransforms": 2, "BatchStrategy": "SINGLE_RECORD", "MaxPayloadInMB": 1}


def test_over_grpc(container: Container) -> None:
    address = f"127.0.0.1:{container.ports[1]}"
    with Client.grpc(address, token=TOKEN) as client:
        assert client.predict("intents", "ok")
    with Client.grpc(address, token="wrong") as client, pytest.raises(UnauthorizedError):
        client.predict("intents", "ok")


def test_its_metrics(container: Container) -> None:
    requests.post(f"{container.url}/predictions/intents", json={"inputs": "ok"}, headers=BEARER, timeout=30)
    deadline = time.monotonic() + 20
    while "marina_requests_total{" not in (found := metrics(container)):
        assert time.monotonic() < deadline, found
        time.sleep(0.5)


def metrics(container: Container) -> str:
    return requests.get(f"http://127.0.0.1:{container.ports[2]}/metrics", timeout=10).text


def test_readiness_looks_at_the_workers(images: Images, tmp_path: Path) -> None:
    with serving(images, tmp_path / "log") as container:
        kill_workers(container)
        deadline = time.monotonic() + 30
        while container.ping() == 200:
            assert time.monotonic() < deadline, "not ready without workers"
        assert container.ping("/v2/health/live") == 200  # TorchServe starts new ones
        container.wait()


def kill_workers(container: Container) -> None:
    for worker in container.workers():
        worker.kill()


def test_no_secret_where_a_worker_can_read(container: Container) -> None:
    main = psutil.Process(container.process.pid)
    family = [one for one in main.children(recursive=True) if one.status() != psutil.STATUS_ZOMBIE]
    assert len(family) > 4, container.log.read_text()
    for process in family:
        assert TOKEN not in str(process.environ())
        assert TOKEN not in str(process.cmdline())
    assert TOKEN not in container.log.read_text()
    root = Path(f"/proc/{main.children()[0].pid}/root")
    for folder in WRITABLE:
        for path in (root / folder.removeprefix("/")).rglob("*"):
            if path.is_file() and path.stat().st_size < 1e6:
                assert TOKEN.encode() not in path.read_bytes()


def test_it_answers_what_it_has_when_it_is_stopped(images: Images, tmp_path: Path) -> None:
    answers: list[int] = []

    def ask(url: str) -> None:
        """Ask until the connection is closed, which must only happen to who was told that it ends."""
        with requests.Session() as session:
            status = 0
            while True:
                try:
                    body = {"inputs": ["change company address"] * 16}
                    answer = session.post(f"{url}/predictions/intents", json=body, headers=BEARER, timeout=60)
                except requests.ConnectionError as error:
                    assert status == 503, error
                    return
                status = answer.status_code
                answers.append(status)

    with serving(images, tmp_path / "log") as container, ThreadPoolExecutor(8) as pool:
        asking = [pool.submit(ask, container.url) for _ in range(8)]
        time.sleep(2)
        container.process.send_signal(signal.SIGTERM)
        assert container.process.wait(60) == 0
        for one in asking:
            one.result()
    assert answers.count(200) > 20
    assert set(answers) == {200, 503}


def test_as_sagemaker_starts_it(images: Images, tmp_path: Path) -> None:
    ports = free_ports(3)
    given = {**variables(ports), "SAGEMAKER_BIND_TO_PORT": str(ports[0]), "MARINA_MODELS": "topics"}
    # it has one argument, another user, and no token, as SageMaker authorizes callers
    with images.running(IMAGE, given, tmp_path / "log", WRITABLE, arguments=["serve"], user="0") as process:
        container = Container(process, ports, tmp_path / "log")
        container.wait()
        answer = requests.post(f"{container.url}/invocations", json={"inputs": "ok"}, timeout=30)
        assert answer.status_code == 200, answer.text
        # lines, as Batch Transform sends them
        lines = requests.post(
            f"{container.url}/invocations",
            data=b'{"inputs": "ok"}\n{"inputs": "send it"}\n',
            headers={"Content-Type": "application/jsonlines"},
            timeout=30,
        )
        assert [len(json.loads(line)) for line in lines.text.splitlines()] == [2, 2]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "there is no token"),
        ({"MARINA_TOKEN": "short"}, "the token must match"),
        ({"MARINA_TOKEN_FILE": "/nowhere"}, "MARINA_TOKEN_FILE=/nowhere cannot be read"),
        ({"MARINA_TOKEN": TOKEN, "MARINA_PORT": "http"}, "MARINA_PORT=http: write a whole number"),
        ({"MARINA_TOKEN": TOKEN, "MARINA_MODELS": "other"}, "/srv/marina/archives has no archive other"),
    ],
)
def test_a_wrong_variable_is_one_line(images: Images, tmp_path: Path, given: dict[str, str], message: str) -> None:
    with images.running(IMAGE, given, tmp_path / "log", WRITABLE) as process:
        assert process.wait(60) == 1
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 1
    assert message in lines[0]


def test_mounted_archives_and_a_token_in_a_file(images: Images, project: Project, tmp_path: Path) -> None:
    ports = free_ports(3)
    store, secret = tmp_path / "store", tmp_path / "secret"
    store.mkdir()
    secret.mkdir()
    shutil.copy(project.model_store / "intents.mar", store)
    (secret / "token").write_text(f"{TOKEN}\n")
    for folder in (store, secret):
        os.chown(folder, 10001, 10001)
    given = {**variables(ports), "MARINA_TOKEN_FILE": "/mnt/token"}
    shown = {"/srv/marina/archives": store, "/mnt": secret}
    with images.running(IMAGE, given, tmp_path / "log", WRITABLE, files=shown) as process:
        container = Container(process, ports, tmp_path / "log")
        container.wait()
        with Client.http(container.url, token=TOKEN) as client:
            assert client.predict("intents", "ok")
        refused = requests.post(f"{container.url}/predictions/topics", json={"inputs": "ok"}, timeout=10)
        assert refused.status_code == 401


def test_what_is_in_the_image(images: Images, context: Path) -> None:
    image = images.configuration(IMAGE)
    assert image["User"] == "10001"
    assert image["Labels"]["com.amazonaws.sagemaker.capabilities.accept-bind-to-port"] == "true"
    assert image["Labels"]["io.marina.models"] == "intents topics"
    assert set(image["ExposedPorts"]) == {"8080/tcp", "7070/tcp", "8082/tcp"}
    assert images.size(IMAGE) < LIMIT
    root = images.unpacked(IMAGE)
    for tool in ("pip", "pip3", "gcc", "ld", "javac", "jlink", "curl"):
        assert not [*root.glob(f"usr/bin/{tool}"), *root.glob(f"opt/*/bin/{tool}")], tool
    assert (root / "opt" / "java").exists() == (HOST == "torchserve")
    hadolint = Path(sysconfig.get_path("scripts")) / "hadolint"
    done = subprocess.run([hadolint, context / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_list_of_what_is_in_the_image(images: Images, context: Path, project: Project) -> None:
    root = images.unpacked(IMAGE)
    document = json.loads((root / "opt" / "sbom.json").read_text())
    listed = {component["bom-ref"]: component for component in document["components"]}
    assert list(listed) == sorted(listed)
    assert listed["system"]["version"] == "13"
    status = subprocess.run(
        ["dpkg-query", f"--admindir={root}/var/lib/dpkg", "--show", "--showformat", "${Package} ${Version}\\n"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    versions = {component["name"]: component["version"] for component in listed.values() if "version" in component}
    assert {name: versions.get(name) for name in ("libc6", "python3")} == {
        name: version for name, version in map(str.split, status.splitlines()) if name in ("libc6", "python3")
    }
    # all packages of Python, and no others, are those whose checksums pip has compared
    lock = (context / "requirements.txt").read_text()
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+) \\$", lock, re.MULTILINE))
    python = [component for reference, component in listed.items() if reference.startswith("pkg:pypi/")]
    assert {re.sub(r"[-_.]+", "-", one["name"]).lower(): one["version"] for one in python} == pinned
    assert lock.count("--hash=sha256:") > len(pinned)
    archive = project.model_store / "intents.mar"
    assert listed["archive:intents"]["hashes"][0]["content"] == sha256_of(archive)
    java = {reference for reference in listed if reference.startswith(("pkg:maven/", "pkg:generic/openjdk"))}
    assert bool(java) == (HOST == "torchserve")
    if java:
        assert "pkg:maven/io.netty/netty-codec-http2@4.1.53.Final" in java


def test_the_same_folder_gives_the_same_layers(images: Images, context: Path, tmp_path: Path) -> None:
    other = shutil.copytree(context, tmp_path / "other")
    for path in other.rglob("*"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    images.build(other, f"{IMAGE}-again", BASE)
    assert images.layers(f"{IMAGE}-again") == images.layers(IMAGE)


def test_a_machine_of_another_kind_is_refused(context: Path, tmp_path: Path) -> None:
    """The Dockerfile's first command, on a machine whose dpkg says arm64."""
    lines = (context / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    command = next(line for line in lines if "print-architecture" in line).removeprefix("RUN ")
    for architecture, code in (("amd64", 0), ("arm64", 1)):
        dpkg = tmp_path / "dpkg"
        dpkg.write_text(f"#!/bin/sh\necho {architecture}\n")
        dpkg.chmod(0o755)
        path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(["sh", "-c", command], env=path, capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert bool(code) == ("linux/amd64" in done.stderr)


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
    uploads = re.findall(r"^aws s3 cp .*$", (folder / "README.md").read_text(), re.MULTILINE)
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
