"""`marina deploy ecs`: a task definition and a service of Amazon ECS for an image of `marina deploy image`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import yaml

from marina.archive.describe import Archive
from marina.deploy.folder import new_folder, render
from marina.deploy.needs import DRAIN_S, Needs, default_host, host_of, needs_of
from marina.deploy.scale import Replicas, read_scale
from marina.deploy.source import joint_name, stack_of
from marina.errors import DeployError
from marina.files import write_json

FILES = Path(__file__).parent / "files"
STACKS = ("cpu", "inf1", "inf2")
MIB = 1 << 20
MAX_STOP_S, START_S, MAX_INTERVAL_S, MAX_RETRIES = 120, 300, 300, 10  # the limits of ECS
HEALTH_COMMAND = ["CMD", "python", "-m", "marina.container.check"]


def deploy_ecs(
    archives: Sequence[Archive],
    output: Path,
    cpus: int,
    service_name: str | None = None,
    plan: Path | None = None,
    host: str | None = None,
) -> None:
    """Write task-definition.json, service.json, scaling.json; deploy.py and service.yaml make a service of them.

    Args:
        archives: the archives in the image; they share a task.
        output: the folder to write, which must not exist.
        cpus: CPU cores of a task on the stack cpu, if the archives have no core groups.
        service_name: the name of the service; by default the archive's, or those of several joined.
        plan: a plan.json of `marina plan --write`, for the cores of a task and the number of tasks.
        host: of the image; by default the plan's, or else that of the stack.

    Raises:
        DeployError: the archives are of different stacks or may take longer to start than ECS waits, `output` exists,
            or `plan` is not for these archives.
    """
    stack = stack_of(archives, STACKS, "Amazon ECS")
    name = joint_name(archives, service_name)
    scale = read_scale(plan, archives, host) if plan else None
    host = host_of(host, scale, default_host(stack))
    with new_folder(output) as folder:
        replicas = scale.replicas if scale else Replicas()
        needs = needs_of(archives, stack, cpus, scale, host)
        task = task_definition(archives, name, needs)
        service = service_of(name, replicas, archives[0].hosting.families, needs.startup_s)
        write_json(folder / "task-definition.json", task)
        write_json(folder / "service.json", service)
        write_json(folder / "scaling.json", replicas._asdict())
        values = {"name": name, "models": [archive.name for archive in archives], "replicas": replicas, "host": host}
        render(FILES, folder, {**values, "drain_s": DRAIN_S, **template_values(task, service)})


def task_definition(archives: Sequence[Archive], name: str, needs: Needs) -> dict[str, Any]:
    """The fields of RegisterTaskDefinition, without those of an account."""
    container: dict[str, Any] = {
        "name": "marina",
        "essential": True,
        "cpu": 1024 * needs.cpus,
        "memoryReservation": int(needs.memory_request / MIB),
        "memory": int(needs.memory_limit / MIB),
        "portMappings": [
            {"name": "http", "containerPort": 8080, "protocol": "tcp", "appProtocol": "http"},
            {"name": "grpc", "containerPort": 7070, "protocol": "tcp", "appProtocol": "grpc"},
            {"name": "metrics", "containerPort": 8082, "protocol": "tcp"},
        ],
        "environment": [
            {"name": "MARINA_MODELS", "value": " ".join(archive.name for archive in archives)},
            {"name": "MARINA_DRAIN_S", "value": str(DRAIN_S)},
            {"name": "MARINA_STARTUP_S", "value": str(needs.startup_s)},
        ],
        "healthCheck": {"command": HEALTH_COMMAND, "timeout": 10, "startPeriod": START_S, **probes(needs.startup_s)},
        "stopTimeout": min(MAX_STOP_S, needs.stop_s),
        "readonlyRootFilesystem": True,
        "user": "10001",
        "linuxParameters": {
            "initProcessEnabled": True,
            **devices(needs.neuron_cores, archives[0].hosting.cores_a_device),
        },
        "mountPoints": [
            {"sourceVolume": "run", "containerPath": "/run/marina"},
            {"sourceVolume": "temporary", "containerPath": "/tmp"},
        ],
    }
    return {
        "family": name,
        "networkMode": "awsvpc",
        "requiresCompatibilities": ["EC2"],
        "containerDefinitions": [container],
        "volumes": [{"name": "run"}, {"name": "temporary"}],
    }


def probes(startup_s: int) -> dict[str, int]:
    """How often the health of a task is asked for, and how many times in a row it may be bad.

    ECS counts from START_S on, so a task that may take longer to start needs patience for the rest.

    Raises:
        DeployError: ECS has not as much patience.
    """
    if startup_s <= START_S:
        return {"interval": 10, "retries": 3}
    interval = max(10, ceil((startup_s - START_S) / MAX_RETRIES))
    if interval > MAX_INTERVAL_S:
        longest = START_S + MAX_RETRIES * MAX_INTERVAL_S
        raise DeployError(
            f"Amazon ECS waits at most {longest} s for a task to start, and serving.startup_timeout_s is {startup_s}",
            "set a lower one, and pack again",
        )
    return {"interval": interval, "retries": MAX_RETRIES}


def devices(cores: int, cores_a_device: int) -> dict[str, Any]:
    """The devices of a task that needs `cores` NeuronCores: whole devices, from the first."""
    if not cores:
        return {}
    count = -(-cores // cores_a_device)
    paths = [f"/dev/neuron{number}" for number in range(count)]
    return {"devices": [{"hostPath": path, "containerPath": path, "permissions": ["read", "write"]} for path in paths]}


def service_of(name: str, replicas: Replicas, families: Sequence[str], startup_s: int) -> dict[str, Any]:
    """The fields of CreateService, without those of an account.

    Args:
        name: of the service.
        replicas: its tasks.
        families: the instance families that they may run on; any if empty.
        startup_s: the maximum time until a task answers.
    """
    # two tasks on one instance would take the same cores
    constraints = [{"type": "distinctInstance"}]
    if families:
        expression = " or ".join(f"attribute:ecs.instance-type =~ {family}.*" for family in families)
        constraints.append({"type": "memberOf", "expression": expression})
    return {
        "serviceName": name,
        "desiredCount": replicas.wanted,
        "launchType": "EC2",
        "placementConstraints": constraints,
        "deploymentConfiguration": {
            # ECS rounds up: half of a single task is that task, which could never be replaced
            "minimumHealthyPercent": 50 if replicas.least > 1 else 0,
            "maximumPercent": 100,
            "deploymentCircuitBreaker": {"enable": True, "rollback": True},
        },
        "healthCheckGracePeriodSeconds": max(START_S, startup_s),
        "enableECSManagedTags": True,
        "propagateTags": "SERVICE",  # for the bill
    }


def template_values(task: Mapping[str, Any], service: Mapping[str, Any]) -> dict[str, str]:
    """The parts of the template that are made from a task definition and a service, as YAML.

    CloudFormation has the fields of ECS's API with a capital in front.

    Args:
        task, service: of `task_definition` and `service_of`, without the values of an account.
    """
    (container,) = _capitals(task["containerDefinitions"])
    container["Image"] = {"Ref": "Image"}
    container["Secrets"] = [{"Name": "MARINA_TOKEN", "ValueFrom": {"Ref": "TokenSecret"}}]
    logs = {"awslogs-group": {"Ref": "Logs"}, "awslogs-region": {"Ref": "AWS::Region"}}
    container["LogConfiguration"] = {"LogDriver": "awslogs", "Options": {**logs, "awslogs-stream-prefix": "marina"}}
    volumes = _capitals(task["volumes"])
    options = {name: value for name, value in service.items() if name not in ("serviceName", "launchType")}
    return {
        "container": _yaml([container]),
        "volumes": _yaml(volumes),
        "service": _yaml(_capitals(options)),
    }


def _capitals(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name[0].upper() + name[1:]: _capitals(inner) for name, inner in value.items()}
    return [_capitals(inner) for inner in value] if isinstance(value, list) else value


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=1000).rstrip()
