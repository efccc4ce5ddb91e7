"""What targets take from a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from marina.archive.describe import Archive
from marina.deploy.ecs import deploy_ecs
from marina.deploy.image import deploy_image
from marina.deploy.kubernetes import deploy_kubernetes
from marina.deploy.needs import default_host, host_of
from marina.deploy.ray import deploy_ray
from marina.deploy.sagemaker import deploy_sagemaker
from marina.deploy.scale import read_scale
from marina.errors import DeployError
from marina.project import Project
from tests.conftest import ROOT

BATCH = 16


@pytest.fixture(scope="module")
def packed(archives: list[Archive]) -> list[Archive]:
    """The archives as if packed with two core groups and batches of `BATCH`."""
    found = []
    for archive in archives:
        handler = {**archive.config["handler"], "core_groups": "1,1"}
        found.append(archive._replace(config={**archive.config, "batchSize": BATCH, "handler": handler}))
    return found


def write_plan(folder: Path, names: list[str], **changed: Any) -> Path:
    plan = {
        "models": names,
        "host": "torchserve",
        "instance_type": "c7i.xlarge",
        "cores": 4,
        "instances": 3,
        "least_instances": 2,
        "calls_per_minute": dict.fromkeys(names, 900),
        "under_way": 5.2,
        "busy": 0.48,
        "choice": {"core_groups": ["1,1"] * len(names), "batch_size": BATCH, "p99": 20.1},
    }
    (folder / "plan.json").write_text(json.dumps({**plan, **changed}))
    return folder / "plan.json"


def test_an_endpoint_scales_as_planned(packed: list[Archive], tmp_path: Path) -> None:
    plan = write_plan(tmp_path, ["intents"])
    deploy_sagemaker(Project(ROOT), packed[:1], tmp_path / "out", functions=False, bench=None, plan=plan)
    endpoint = json.loads((tmp_path / "out" / "endpoints.json").read_text())["intents"]
    assert (endpoint["instance_type"], endpoint["invocations_per_minute"]) == ("ml.c7i.xlarge", 900)
    assert (endpoint["instances"], endpoint["max_instances"]) == (2, 6)
    both = write_plan(tmp_path, [archive.name for archive in packed])
    with pytest.raises(DeployError, match="every endpoint has its own"):
        deploy_sagemaker(Project(ROOT), packed, tmp_path / "both", functions=False, bench=None, plan=both)
    with pytest.raises(DeployError, match="give one"):
        deploy_sagemaker(Project(ROOT), packed[:1], tmp_path / "both", functions=False, bench=plan, plan=plan)


def test_pods_tasks_and_replicas_are_as_many_as_planned(packed: list[Archive], tmp_path: Path) -> None:
    plan = write_plan(tmp_path, [archive.name for archive in packed])
    deploy_kubernetes(packed, tmp_path / "kubernetes", None, 2, plan=plan)
    scaler = yaml.safe_load((tmp_path / "kubernetes" / "overlays" / "cpu" / "autoscaler.yaml").read_text())["spec"]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (2, 6)
    assert scaler["metrics"][0]["resource"]["target"]["averageUtilization"] == 48
    deployment = (tmp_path / "kubernetes" / "base" / "deployment.yaml").read_text()
    machines = (tmp_path / "kubernetes" / "overlays" / "cpu" / "machines.yaml").read_text()
    assert 'cpu: "4"' in deployment + machines  # the models share the cores of an instance
    page = (tmp_path / "kubernetes" / "README.md").read_text()
    assert (
        "a pod takes 4 whole cores. The kubelet keeps a part of each node, so nodes need at least one core more" in page
    )
    deploy_ecs(packed, tmp_path / "ecs", 2, plan=plan)
    assert json.loads((tmp_path / "ecs" / "service.json").read_text())["desiredCount"] == 3
    scaling = {"wanted": 3, "least": 2, "most": 6, "cpu_percent": 48}
    assert json.loads((tmp_path / "ecs" / "scaling.json").read_text()) == scaling
    task = json.loads((tmp_path / "ecs" / "task-definition.json").read_text())
    assert task["containerDefinitions"][0]["cpu"] == 4096
    for target in ("kubernetes", "ecs"):
        assert " --host torchserve --output DIR`" in (tmp_path / target / "README.md").read_text()
    deploy_ray(packed, tmp_path / "ray", 1, 4, plan=plan)
    applications = yaml.safe_load((tmp_path / "ray" / "config.yaml").read_text())["applications"]
    scaling = applications[0]["deployments"][0]["autoscaling_config"]
    assert (scaling["min_replicas"], scaling["max_replicas"], scaling["target_ongoing_requests"]) == (4, 12, 1)


def test_the_host_is_that_of_the_plan_unless_another_is_named(packed: list[Archive], tmp_path: Path) -> None:
    scale = read_scale(write_plan(tmp_path, ["intents"]), packed[:1])
    assert host_of(None, scale, "direct") == host_of("torchserve", None, "direct") == "torchserve"
    assert host_of(None, None, "direct") == "direct"
    assert [default_host(stack) for stack in ("cpu", "inf1", "inf2")] == ["direct", "torchserve", "torchserve"]
    for host in (None, "torchserve"):
        output = tmp_path / f"out-{host}"
        plan = write_plan(tmp_path, ["intents"])
        deploy_sagemaker(Project(ROOT), packed[:1], output, functions=False, bench=None, plan=plan, host=host)
        assert "MARINA_HOST=torchserve" in (output / "image" / "Dockerfile").read_text()
    deploy_image(Project(ROOT), packed[:1], tmp_path / "image", mounted=True)
    dockerfile = (tmp_path / "image" / "Dockerfile").read_text()
    assert "MARINA_HOST=direct" in dockerfile
    assert "nginx" not in dockerfile
    with pytest.raises(DeployError, match="AWS's images have TorchServe, and no host direct"):
        deploy_sagemaker(Project(ROOT), packed[:1], tmp_path / "aws", False, None, None, aws_image=True, host="direct")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"models": ["other"]}, "is a plan for other, which share instances, not for intents"),
        (
            {"choice": {"core_groups": ["2"], "batch_size": BATCH}},
            "has core groups 1,1 and batches of 16, and the plan 2",
        ),
        ({"instances": "many"}, "not a plan of this release"),
    ],
)
def test_a_plan_for_something_else_is_refused(
    packed: list[Archive], tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(DeployError, match=message):
        read_scale(write_plan(tmp_path, ["intents"], **changed), packed[:1])
    with pytest.raises(DeployError, match="cannot be read"):
        read_scale(tmp_path / "none.json", packed[:1])
    with pytest.raises(DeployError, match="is a plan for the host torchserve, not for direct"):
        read_scale(write_plan(tmp_path, ["intents"]), packed[:1], "direct")
