"""The manifests, judged by the schemas of Kubernetes and of what extends it; tests/end_to_end runs them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from handlers.worker.archive.artifact import sha256_of
from marina.archive.describe import Archive
from marina.deploy.kubernetes import deploy_kubernetes
from marina.errors import DeployError
from tests.conftest import ROOT

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


def an_object(required: str = "", **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": required.split(), "additionalProperties": False}


STRING, NUMBER, WORDS = {"type": "string"}, {"type": "integer"}, {"type": "array", "items": {"type": "string"}}
TARGET = an_object("name", apiVersion=STRING, kind=STRING, name=STRING)
TRIGGER = an_object(
    "type metadata",
    type=STRING,
    metricType={"enum": ["AverageValue", "Value", "Utilization"]},
    metadata={"type": "object", "additionalProperties": STRING},
)
LABELS = an_object(matchLabels={"type": "object", "additionalProperties": STRING})
FORMAT = an_object("name", name=STRING, version=STRING, autoSelect={"type": "boolean"})
MODEL = an_object("modelFormat", modelFormat=FORMAT, runtime=STRING, protocolVersion=STRING, storageUri=STRING)
ALERT = an_object(
    "alert expr",
    alert=STRING,
    expr=STRING,
    labels={"type": "object"},
    annotations={"type": "object"},
    **{"for": STRING},
)
RECORD = an_object("record expr", record=STRING, expr=STRING, labels={"type": "object"})
BACKEND = an_object("name port", name=STRING, port=NUMBER, weight=NUMBER)
# the fields that are used, as KEDA 2, the Prometheus operator 0.8x, KServe 0.1x and the Gateway API 1 define them
SPECS = {
    "ScaledObject": an_object(
        "scaleTargetRef triggers",
        scaleTargetRef=TARGET,
        minReplicaCount=NUMBER,
        maxReplicaCount=NUMBER,
        cooldownPeriod=NUMBER,
        triggers={"type": "array", "items": TRIGGER},
    ),
    "ServiceMonitor": an_object(
        "selector endpoints",
        jobLabel=STRING,
        selector=LABELS,
        endpoints={"type": "array", "items": an_object(port=STRING, path=STRING, interval=STRING)},
    ),
    "PrometheusRule": an_object(
        "groups",
        groups={
            "type": "array",
            "items": an_object(
                "name rules",
                name=STRING,
                rules={"type": "array", "items": {"oneOf": [ALERT, RECORD]}},
            ),
        },
    ),
    "HTTPRoute": an_object(
        "parentRefs rules",
        parentRefs={"type": "array", "items": an_object("name", name=STRING)},
        rules={"type": "array", "items": an_object("backendRefs", backendRefs={"type": "array", "items": BACKEND})},
    ),
    "ServingRuntime": an_object(
        "containers",
        supportedModelFormats={"type": "array", "items": FORMAT},
        protocolVersions=WORDS,
        multiModel={"type": "boolean"},
        containers={"type": "array"},
        volumes={"type": "array"},
    ),
    "InferenceService": an_object(
        "predictor",
        predictor=an_object(
            "model",
            minReplicas=NUMBER,
            model=MODEL,
            securityContext=an_object(fsGroup=NUMBER),
            terminationGracePeriodSeconds=NUMBER,
        ),
    ),
}


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


def check(document: dict[str, Any]) -> None:
    """Check a manifest strictly: by Kubernetes' schema, or by what extends it."""
    if document["kind"] == "Kustomization":
        return
    if document["kind"] not in SPECS:
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
        return
    jsonschema.validate(document["spec"], SPECS[document["kind"]])
    if document["kind"] == "ServingRuntime":  # its containers and volumes are those of a pod
        spec = {"containers": document["spec"]["containers"], "volumes": document["spec"]["volumes"]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "runtime"}, "spec": spec}
        kubernetes_validate.validate(pod, kubernetes_validate.latest_version(), strict=True)


@pytest.fixture(scope="module")
def written(archives: list[Archive], tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("kubernetes") / "out"
    deploy_kubernetes(archives, output, image=None, cpus=2)
    return output


def on(archive: Archive, engine: str, groups: str | None) -> Archive:
    """The archive as if it were compiled for another engine."""
    artifacts = tuple(type(one)(**{**vars(one), "engine": engine}) for one in archive.artifacts)
    serving = {**archive.serving, "core_groups": groups}
    return archive._replace(artifacts=artifacts, config={**archive.config, "handler": serving})


def test_every_manifest_is_valid(written: Path) -> None:
    kinds = set()
    for path in written.rglob("*.yaml"):
        for document in documents(path):
            kinds.add(document["kind"])
            if path.name != "machines.yaml":
                check(document)
    assert kinds >= {"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy", "HorizontalPodAutoscaler", *SPECS}


@pytest.mark.parametrize(
    ("file", "right", "wrong"),
    [
        ("base/deployment.yaml", "failureThreshold: 2", "failureTreshold: 2"),
        ("optional/keda.yaml", "cooldownPeriod", "coolDownPeriod"),
        ("optional/kserve.yaml", "containerPort: 8080", "containerPort: http"),
    ],
)
def test_the_check_finds_what_is_wrong(written: Path, tmp_path: Path, file: str, right: str, wrong: str) -> None:
    text = (written / file).read_text()
    assert right in text
    (tmp_path / "wrong.yaml").write_text(text.replace(right, wrong))
    with pytest.raises((kubernetes_validate.ValidationError, jsonschema.ValidationError)):
        for document in documents(tmp_path / "wrong.yaml"):
            check(document)


@needs_kubectl
@pytest.mark.parametrize(("engine", "stack"), [(None, "cpu"), ("neuron", "inf1"), ("neuronx", "inf2")])
def test_each_overlay_is_whole(archives: list[Archive], tmp_path: Path, engine: str | None, stack: str) -> None:
    made = [on(archive, engine, "1,1") if engine else archive for archive in archives]
    deploy_kubernetes(made, tmp_path / "out", image="registry.example/team/models:7", cpus=3)
    overlay = tmp_path / "out" / "overlays" / stack
    assert [path.name for path in overlay.parent.iterdir()] == [stack]
    (overlay / "token").write_text("0123456789abcdef")
    done = subprocess.run(["kubectl", "kustomize", overlay], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    by_kind = {document["kind"]: document for document in yaml.safe_load_all(done.stdout)}
    for document in by_kind.values():
        check(document)
    pod = by_kind["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "registry.example/team/models:7"
    assert pod["volumes"][-1]["secret"]["secretName"] == by_kind["Secret"]["metadata"]["name"]
    limits = container["resources"]["limits"]
    assert limits.get("aws.amazon.com/neuroncore") == (None if stack == "cpu" else "4")
    assert ("HorizontalPodAutoscaler" in by_kind) == (stack == "cpu") == ("affinity" not in pod)
    rolling = by_kind["Deployment"]["spec"]["strategy"]["rollingUpdate"]
    assert rolling == ({"maxUnavailable": 0, "maxSurge": 1} if stack == "cpu" else {"maxUnavailable": 1, "maxSurge": 0})
    if stack != "cpu":
        (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        (expression,) = term["matchExpressions"]
        assert expression["key"] == "node.kubernetes.io/instance-type"
        assert {name.partition(".")[0] for name in expression["values"]} <= {stack, "trn1"}
        assert f"{stack}.xlarge" in expression["values"]


def test_alerts_and_the_dashboard_are_those_of_a_project(written: Path) -> None:
    (rule,) = documents(written / "optional" / "prometheusrule.yaml")
    assert rule["spec"] == yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text())
    (dashboard,) = documents(written / "optional" / "dashboard.yaml")
    stored = json.loads((ROOT / "deploy" / "grafana" / "marina.json").read_text())
    assert json.loads(dashboard["data"]["marina.json"]) == stored
    (metrics,) = [
        item for item in documents(written / "base" / "service.yaml") if "metrics" in item["metadata"]["name"]
    ]
    (monitor,) = documents(written / "optional" / "servicemonitor.yaml")
    assert (
        f'job="{metrics["metadata"]["labels"][monitor["spec"]["jobLabel"]]}"'
        in rule["spec"]["groups"][0]["rules"][0]["expr"]
    )


def test_a_secret_of_the_cluster_takes_the_place_of_a_token_file(archives: list[Archive], tmp_path: Path) -> None:
    deploy_kubernetes(archives, tmp_path / "out", None, 2, secret="models.token")
    (kustomization,) = documents(tmp_path / "out" / "overlays" / "cpu" / "kustomization.yaml")
    assert "secretGenerator" not in kustomization
    pod = documents(tmp_path / "out" / "base" / "deployment.yaml")[0]["spec"]["template"]["spec"]
    assert pod["volumes"][-1]["secret"]["secretName"] == "models.token"
    with pytest.raises(DeployError, match="is not the name of a Secret"):
        deploy_kubernetes(archives, tmp_path / "other", None, 2, secret="My Token")


def test_pods_load_archives_from_s3(archives: list[Archive], tmp_path: Path) -> None:
    out = tmp_path / "out"
    deploy_kubernetes(archives, out, None, 2, bucket="s3://models/nlp/", service_account="reader")
    for path in out.rglob("*.yaml"):
        for document in documents(path):
            if path.name != "machines.yaml":
                check(document)
    pod = documents(out / "base" / "deployment.yaml")[0]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "reader"
    (loader,), (container,) = pod["initContainers"], pod["containers"]
    assert len(loader["command"][-1].splitlines()) == len(archives)
    listed = dict(line.split("  ") for line in (out / "base" / "archives.sha256").read_text().splitlines())
    (page,) = out.glob("README.*")
    readme = page.read_text()
    for archive, (sha256, name) in zip(archives, listed.items(), strict=True):
        assert (sha256, name) == (sha256_of(archive.path), f"{archive.name}.mar")
        url = f"s3://models/nlp/{archive.name}-{sha256[:12]}.mar"
        assert f"cp --only-show-errors {url} /srv/marina/archives/{name}\n" in loader["command"][-1]
        assert f"aws s3 cp model_store/{name} {url}\n" in readme
    kinds = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert mounts["/srv/marina/archives"] == {
        "name": "archives",
        "mountPath": "/srv/marina/archives",
        "readOnly": True,
    }
    trusted = next(variable["value"] for variable in container["env"] if variable["name"] == "MARINA_TRUSTED")
    folder, _, file = trusted.rpartition("/")
    (kustomization,) = documents(out / "base" / "kustomization.yaml")
    (generated,) = kustomization["configMapGenerator"]
    assert kinds[mounts[folder]["name"]]["configMap"]["name"] == generated["name"]
    assert generated["files"] == [file]


@pytest.mark.parametrize("url", ["models/nlp", "s3://", "s3://Models/nlp", "s3://models/a b", "s3://models/$(id)"])
def test_a_folder_that_is_not_of_s3_is_refused(archives: list[Archive], tmp_path: Path, url: str) -> None:
    with pytest.raises(DeployError, match="is not a folder of S3"):
        deploy_kubernetes(archives, tmp_path / "out", None, 2, bucket=url)
    assert not (tmp_path / "out").exists()


def test_a_service_account_is_for_pods_that_load(archives: list[Archive], tmp_path: Path) -> None:
    with pytest.raises(DeployError, match="--service-account is for pods that load archives"):
        deploy_kubernetes(archives, tmp_path / "out", None, 2, service_account="reader")
    with pytest.raises(DeployError, match="is not the name of a ServiceAccount"):
        deploy_kubernetes(archives, tmp_path / "out", None, 2, bucket="s3://models", service_account="My Reader")


def test_an_image_may_be_named_by_its_digest(archives: list[Archive], tmp_path: Path) -> None:
    digest = f"sha256:{'1f' * 32}"
    deploy_kubernetes(archives, tmp_path / "out", image=f"registry.example/models@{digest}", cpus=2)
    (kustomization,) = documents(tmp_path / "out" / "overlays" / "cpu" / "kustomization.yaml")
    name = "registry.example/models"
    assert kustomization["images"] == [{"name": name, "newName": name, "digest": digest}]
    pod = documents(tmp_path / "out" / "base" / "deployment.yaml")[0]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == f"{name}@{digest}"


def test_a_pod_outlives_its_drain(written: Path, archives: list[Archive]) -> None:
    pod = documents(written / "base" / "deployment.yaml")[0]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    drain = next(int(one["value"]) for one in container["env"] if one["name"] == "MARINA_DRAIN_S")
    sleep = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    longest = max(archive.config["responseTimeout"] for archive in archives)
    assert pod["terminationGracePeriodSeconds"] > sleep + drain + longest


def test_archives_of_two_stacks_are_refused(archives: list[Archive], tmp_path: Path) -> None:
    mixed = [archives[0], on(archives[1], "neuronx", "1")]
    with pytest.raises(DeployError, match="cannot share a machine"):
        deploy_kubernetes(mixed, tmp_path / "out", image=None, cpus=2)
    assert not (tmp_path / "out").exists()


SERIES = """
rule_files: [rules.yaml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'Requests5XX{{service="intents-metrics"}}', values: '0+{errors}x400'}}
      - {{series: 'ts_inference_requests_total{{service="intents-metrics"}}', values: '0+1000x400'}}
      - {{series: 'marina_request_seconds_bucket{{service="intents-metrics", le="1"}}', values: '0+{quick}x400'}}
      - {{series: 'marina_request_seconds_count{{service="intents-metrics"}}', values: '0+1000x400'}}
    promql_expr_test:
      - expr: count(ALERTS{{alertstate="firing", severity="page"}}) or vector(0)
        eval_time: 400m
        exp_samples: [{{labels: '{{}}', value: {pages}}}]
"""


@pytest.mark.skipif(not shutil.which("promtool"), reason="Prometheus is not installed")
@pytest.mark.parametrize(("errors", "quick", "pages"), [(0, 1000, 0), (20, 1000, 1), (5, 1000, 0), (0, 800, 1)])
def test_a_budget_that_burns_fast_is_a_page(
    archives: list[Archive], tmp_path: Path, errors: int, quick: int, pages: int
) -> None:
    deploy_kubernetes(archives[:1], tmp_path / "out", None, 2)
    (rule,) = documents(tmp_path / "out" / "optional" / "slo.yaml")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rule["spec"]))
    (tmp_path / "test.yaml").write_text(SERIES.format(errors=errors, quick=quick, pages=pages))
    done = subprocess.run(
        ["promtool", "test", "rules", "test.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
