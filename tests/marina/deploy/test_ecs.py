"""The task and the service, judged by AWS's own model of ECS."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from math import ceil, floor
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from botocore.stub import ANY

from marina.archive.describe import Archive
from marina.deploy.ecs import deploy_ecs, service_of
from marina.deploy.scale import Replicas
from marina.deploy.source import type_names
from marina.errors import DeployError
from tests.marina.deploy.conftest import Clients, cfn_lint, load
from tests.marina.deploy.test_kubernetes import on

ARN = "arn:aws:ecs:eu-west-1:123456789012"
OPTIONS = """
create --cluster models --image registry/models:1 --execution-role arn:aws:iam::1:role/ecs --log-group /models
--token-secret arn:aws:secretsmanager:eu-west-1:1:secret:token --subnets subnet-1 subnet-2 --security-groups sg-1
""".split()  # noqa: SIM905


def stubbed(monkeypatch: pytest.MonkeyPatch) -> Clients:
    monkeypatch.setattr("time.sleep", lambda _: None)  # of waiters
    return Clients(boto3.Session(region_name="eu-west-1"), "ecs", "application-autoscaling")


def expect(
    clients: Clients, task: dict[str, Any], active: bool, service: dict[str, Any], target_group: str = ""
) -> None:
    """Every call, with parameters that the model of ECS has checked."""
    ecs = clients.stubs["ecs"]
    ecs.add_response(
        "register_task_definition",
        {"taskDefinition": {"taskDefinitionArn": f"{ARN}:task-definition/marina:1"}},
        {**task, "containerDefinitions": ANY, "executionRoleArn": "arn:aws:iam::1:role/ecs"},
    )
    found = {"services": [{"status": "ACTIVE", "desiredCount": 2}] if active else []}
    ecs.add_response("describe_services", found, {"cluster": "models", "services": [service["serviceName"]]})
    revision = {"cluster": "models", "taskDefinition": f"{ARN}:task-definition/marina:1"}
    network = {"subnets": ["subnet-1", "subnet-2"], "securityGroups": ["sg-1"]}
    fields = {**service, "networkConfiguration": {"awsvpcConfiguration": network}}
    if target_group:
        balancer = {"targetGroupArn": target_group, "containerName": "marina", "containerPort": 8080}
        fields["loadBalancers"] = [balancer]
    else:
        del fields["healthCheckGracePeriodSeconds"]
    if active:
        changed = {name: value for name, value in fields.items() if name not in ("serviceName", "desiredCount")}
        del changed["launchType"]
        ecs.add_response("update_service", {}, {**revision, **changed, "service": service["serviceName"]})
    else:
        ecs.add_response("create_service", {}, {**revision, **fields})
    rolling = {"status": "PRIMARY", "taskDefinition": f"{ARN}:task-definition/marina:1"}
    for state in ("IN_PROGRESS", "COMPLETED"):
        ecs.add_response("describe_services", {"services": [{"deployments": [{**rolling, "rolloutState": state}]}]})
    scaling = clients.stubs["application-autoscaling"]
    scaling.add_response("register_scalable_target", {})
    scaling.add_response("put_scaling_policy", {"PolicyARN": f"{ARN}:policy"})


def test_archives_for_trn2_are_placed_there_alone(archives: list[Archive], tmp_path: Path) -> None:
    for physical, count in ((2, 2), (1, 1)):  # a device has four or eight cores
        compiler = {"target": "trn2", "logical_nc_config": physical}
        made = on(archives[0], "neuronx", "1,1,1,1,1")
        made = made._replace(artifacts=tuple(replace(one, compiler=compiler) for one in made.artifacts))
        assert type_names(made) == ["trn2.3xlarge", "trn2.48xlarge", "trn2u.48xlarge"]
        deploy_ecs([made], tmp_path / f"{physical}", cpus=2)
        (_, constraint) = json.loads((tmp_path / f"{physical}" / "service.json").read_text())["placementConstraints"]
        assert constraint["expression"] == "attribute:ecs.instance-type =~ trn2.*"
        task = json.loads((tmp_path / f"{physical}" / "task-definition.json").read_text())
        assert len(task["containerDefinitions"][0]["linuxParameters"]["devices"]) == count


@pytest.mark.parametrize("active", [False, True], ids=["new", "again"])
@pytest.mark.parametrize("engine", [None, "neuron", "neuronx"])
def test_create(
    archives: list[Archive], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str | None, active: bool
) -> None:
    made = [on(archive, engine, "1,1,1") if engine else archive for archive in archives]
    deploy_ecs(made, tmp_path / "out", cpus=2)
    deploy = load(tmp_path / "out" / "deploy.py")
    task = json.loads((tmp_path / "out" / "task-definition.json").read_text())
    clients = stubbed(monkeypatch)
    expect(clients, task, active, json.loads((tmp_path / "out" / "service.json").read_text()))
    deploy.create(clients, deploy.parse(OPTIONS))
    clients.done()
    (container,) = task["containerDefinitions"]
    devices = container["linuxParameters"].get("devices", [])
    # six cores: four on each chip of Inf1, two on each of Inf2
    assert len(devices) == {None: 0, "neuron": 2, "neuronx": 3}[engine]
    assert container["stopTimeout"] <= 120
    constraints = json.loads((tmp_path / "out" / "service.json").read_text())["placementConstraints"]
    families = {"neuron": "inf1", "neuronx": "inf2"}
    assert len(constraints) == (2 if engine else 1)
    if engine:
        assert f"attribute:ecs.instance-type =~ {families[engine]}.*" in constraints[1]["expression"]
    assert "token" not in json.dumps(task).lower().replace("tokenizers", "")


@pytest.mark.parametrize("active", [False, True], ids=["new", "again"])
def test_a_load_balancer_reaches_the_service(
    archives: list[Archive], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, active: bool
) -> None:
    deploy_ecs(archives[:1], tmp_path / "out", cpus=2)
    deploy = load(tmp_path / "out" / "deploy.py")
    task, service = (
        json.loads((tmp_path / "out" / name).read_text()) for name in ("task-definition.json", "service.json")
    )
    clients = stubbed(monkeypatch)
    expect(clients, task, active, service, "arn:group")
    deploy.create(clients, deploy.parse([*OPTIONS, "--target-group", "arn:group"]))
    clients.done()


@pytest.mark.parametrize("tasks", [1, 2, 3])
def test_an_update_can_replace_any_number_of_tasks(archives: list[Archive], tmp_path: Path, tasks: int) -> None:
    written = service_of("intents", Replicas(tasks, tasks, 4), [], 120)["deploymentConfiguration"]
    deploy_ecs(archives[:1], tmp_path / "out", cpus=2)
    deploy = load(tmp_path / "out" / "deploy.py")
    # what a service.json of another number of tasks becomes
    updated = [deploy.healthy_percent({"desiredCount": tasks}, {"minimumHealthyPercent": each}) for each in (0, 50)]
    for percent in (written["minimumHealthyPercent"], *updated):
        kept = ceil(tasks * percent / 100)  # as ECS rounds
        assert kept < floor(tasks * written["maximumPercent"] / 100)
        assert kept or tasks == 1


@pytest.mark.parametrize("startup_s", [120, 300, 301, 900, 3300])
def test_a_task_has_as_long_to_start_as_its_workers(archives: list[Archive], tmp_path: Path, startup_s: int) -> None:
    slow = archives[1]._replace(config={**archives[1].config, "startupTimeout": startup_s})
    deploy_ecs([archives[0], slow], tmp_path / "out", cpus=2)
    task, service = (
        json.loads((tmp_path / "out" / name).read_text()) for name in ("task-definition.json", "service.json")
    )
    (container,) = task["containerDefinitions"]
    health = container["healthCheck"]
    assert health["startPeriod"] + health["interval"] * health["retries"] >= startup_s
    limits = {"startPeriod": 300, "interval": 300, "retries": 10}  # of ECS
    assert all(health[name] <= limit for name, limit in limits.items())
    assert service["healthCheckGracePeriodSeconds"] >= startup_s


def test_a_start_that_ecs_does_not_wait_for_is_refused(archives: list[Archive], tmp_path: Path) -> None:
    slow = archives[0]._replace(config={**archives[0].config, "startupTimeout": 3301})
    with pytest.raises(DeployError, match="waits at most 3300 s for a task to start"):
        deploy_ecs([slow], tmp_path / "out", cpus=2)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("gone", [False, True], ids=["failed", "gone"])
def test_a_service_that_went_back_is_no_success(
    archives: list[Archive],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gone: bool,
) -> None:
    deploy_ecs(archives[:1], tmp_path / "out", cpus=2)
    deploy = load(tmp_path / "out" / "deploy.py")
    clients = stubbed(monkeypatch)
    failed = {"status": "ACTIVE", "taskDefinition": "new", "rolloutState": "FAILED", "rolloutStateReason": "no health."}
    old = {"status": "PRIMARY", "taskDefinition": "old", "rolloutState": "IN_PROGRESS"}
    events = [{"message": "tasks failed to start."}]
    rolling = {**failed, "rolloutState": "IN_PROGRESS"}
    # the first answers do not know of the update yet
    for deployments in ([old], [old, rolling], [old] if gone else [old, failed]):
        service = {"deployments": deployments, "events": events}
        clients.stubs["ecs"].add_response("describe_services", {"services": [service]})
    with pytest.raises(SystemExit) as ended:
        deploy.wait(clients.client("ecs"), "models", "intents", "new")
    reasons = "tasks failed to start." if gone else "no health. tasks failed to start."
    assert ended.value.code == f"intents: does not run new, but old: {reasons}"


def test_a_capacity_provider_takes_the_place_of_the_launch_type(
    archives: list[Archive], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy_ecs(archives[:1], tmp_path / "out", cpus=2)
    deploy = load(tmp_path / "out" / "deploy.py")
    service = json.loads((tmp_path / "out" / "service.json").read_text())
    del service["launchType"]
    service["capacityProviderStrategy"] = [{"capacityProvider": "inferentia", "weight": 1}]
    clients = stubbed(monkeypatch)
    expect(clients, json.loads((tmp_path / "out" / "task-definition.json").read_text()), False, service)
    deploy.create(clients, deploy.parse([*OPTIONS, "--capacity-provider", "inferentia"]))
    clients.done()


@pytest.mark.parametrize("engine", [None, "neuron", "neuronx"])
def test_the_template_has_the_same_task(archives: list[Archive], tmp_path: Path, engine: str | None) -> None:
    made = [on(archive, engine, "1,1,1") if engine else archive for archive in archives]
    deploy_ecs(made, tmp_path / "out", cpus=2)
    template = tmp_path / "out" / "service.yaml"
    done = cfn_lint(template)
    assert done.returncode == 0, done.stdout
    # its tags, such as !Ref, do not matter here
    text = re.sub(r"!\w+", "", template.read_text())
    resources = yaml.safe_load(text)["Resources"]
    (container,) = resources["Task"]["Properties"]["ContainerDefinitions"]
    task = json.loads((tmp_path / "out" / "task-definition.json").read_text())["containerDefinitions"][0]
    assert container["Memory"] == task["memory"]
    assert len(container["LinuxParameters"].get("Devices", [])) == len(task["linuxParameters"].get("devices", []))
    assert container["Secrets"] == [{"Name": "MARINA_TOKEN", "ValueFrom": {"Ref": "TokenSecret"}}]
    service = resources["Service"]["Properties"]
    written = json.loads((tmp_path / "out" / "service.json").read_text())
    assert service["DesiredCount"] == written["desiredCount"]
    assert len(service["PlacementConstraints"]) == len(written["placementConstraints"])
    assert service["DeploymentConfiguration"]["DeploymentCircuitBreaker"] == {"Enable": True, "Rollback": True}


def test_delete(archives: list[Archive], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy_ecs(archives[:1], tmp_path / "out", cpus=2)
    deploy = load(tmp_path / "out" / "deploy.py")
    clients = stubbed(monkeypatch)
    fields = {"cluster": "models", "service": "intents", "force": True}
    clients.stubs["ecs"].add_response("delete_service", {}, fields)
    deploy.delete(clients, deploy.parse(["delete", "--cluster", "models"]))
    clients.done()
