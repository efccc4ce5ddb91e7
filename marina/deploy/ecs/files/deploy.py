"""Makes a service of Amazon ECS from this folder, and removes it again.

    python deploy.py create --cluster CLUSTER --image IMAGE_URI --execution-role ROLE_ARN --token-secret SECRET_ARN \\
        --log-group GROUP --subnets subnet-1 subnet-2 --security-groups sg-1 [--target-group ARN]
    python deploy.py delete --cluster CLUSTER

Needs boto3 and credentials. The secret of Secrets Manager holds the token that requests must bring. Running it again
rolls the service to a new revision; tasks answer what they have before they end. It exits with 1 if the service does
not run the new revision in the end, as after the circuit breaker has gone back.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import boto3

HERE = Path(__file__).parent
WAIT_S, POLL_S = 2700, 15  # the circuit breaker needs several starts of a task to fire
SETTLE_S = 60  # until every answer of ECS knows of the update
HALF = 50  # percent of the tasks
# fields of CreateService that UpdateService takes too; autoscaling has the number of tasks
UPDATED = (
    "placementConstraints",
    "deploymentConfiguration",
    "networkConfiguration",
    "loadBalancers",
    "healthCheckGracePeriodSeconds",
    "enableECSManagedTags",
    "propagateTags",
)
EVENTS = 3  # of the service, the newest first
METRIC = "ECSServiceAverageCPUUtilization"


def create(session: Any, options: argparse.Namespace) -> None:
    """Register the task definition; create the service, or update it."""
    ecs = session.client("ecs")
    task = json.loads((HERE / "task-definition.json").read_text())
    container = task["containerDefinitions"][0]
    container["image"] = options.image
    container["secrets"] = [{"name": "MARINA_TOKEN", "valueFrom": options.token_secret}]
    logs = {"awslogs-group": options.log_group, "awslogs-region": session.region_name}
    container["logConfiguration"] = {"logDriver": "awslogs", "options": {**logs, "awslogs-stream-prefix": "marina"}}
    registered = ecs.register_task_definition(**task, executionRoleArn=options.execution_role)
    revision = registered["taskDefinition"]["taskDefinitionArn"]
    service = json.loads((HERE / "service.json").read_text())
    name = service["serviceName"]
    network = {"subnets": options.subnets, "securityGroups": options.security_groups}
    service["networkConfiguration"] = {"awsvpcConfiguration": network}
    if options.target_group:
        balancer = {"targetGroupArn": options.target_group, "containerName": "marina", "containerPort": 8080}
        service["loadBalancers"] = [balancer]
    else:
        del service["healthCheckGracePeriodSeconds"]  # of load balancers
    if options.capacity_provider:  # makes the cluster grow with the tasks
        del service["launchType"]
        service["capacityProviderStrategy"] = [{"capacityProvider": options.capacity_provider, "weight": 1}]
    services = ecs.describe_services(cluster=options.cluster, services=[name])["services"]
    active = [existing for existing in services if existing["status"] == "ACTIVE"]
    if active:
        rollout = service["deploymentConfiguration"]
        rollout["minimumHealthyPercent"] = healthy_percent(active[0], rollout)
        changed = {"placementConstraints": [], **{field: service[field] for field in UPDATED if field in service}}
        if options.capacity_provider:
            changed |= {"capacityProviderStrategy": service["capacityProviderStrategy"], "forceNewDeployment": True}
        ecs.update_service(cluster=options.cluster, service=name, taskDefinition=revision, **changed)
    else:
        ecs.create_service(cluster=options.cluster, taskDefinition=revision, **service)
    wait(ecs, options.cluster, name, revision)
    scale(session.client("application-autoscaling"), options, name)
    print(f"{name}: runs {revision}")


def healthy_percent(existing: dict[str, Any], rollout: dict[str, Any]) -> int:
    """The percentage of the tasks that go on during an update: none of a single one, as the next needs its instance."""
    return max(HALF, rollout["minimumHealthyPercent"]) if existing["desiredCount"] > 1 else 0


def wait(ecs: Any, cluster: str, name: str, revision: str) -> None:
    """Wait until the service runs a revision; end with 1 and its reason if it went back or takes too long."""
    start, was_seen = time.monotonic(), False
    while True:
        services = ecs.describe_services(cluster=cluster, services=[name])["services"]
        service = services[0] if services else {"deployments": []}
        wanted = [deployment for deployment in service["deployments"] if deployment["taskDefinition"] == revision]
        was_seen |= bool(wanted)
        waited_s = time.monotonic() - start
        absent = "FAILED" if was_seen or waited_s > SETTLE_S else "PENDING"
        state = wanted[0].get("rolloutState") if wanted else absent
        if state == "COMPLETED":
            return
        if state == "FAILED" or waited_s > WAIT_S:
            primary = [d["taskDefinition"] for d in service["deployments"] if d["status"] == "PRIMARY"]
            present = primary[0] if primary else "nothing"
            reasons = [wanted[0].get("rolloutStateReason", "")] if wanted else []
            reasons += [event["message"] for event in service.get("events", [])[:EVENTS]]
            sys.exit(f"{name}: does not run {revision}, but {present}: {' '.join(filter(None, reasons))}")
        time.sleep(POLL_S)


def scale(autoscaling: Any, options: argparse.Namespace, name: str) -> None:
    """Let the number of tasks follow the CPU time that they use."""
    resource = {
        "ServiceNamespace": "ecs",
        "ResourceId": f"service/{options.cluster}/{name}",
        "ScalableDimension": "ecs:service:DesiredCount",
    }
    scaling = json.loads((HERE / "scaling.json").read_text())
    max_tasks = options.max_tasks or scaling["most"]
    autoscaling.register_scalable_target(
        **resource, MinCapacity=min(scaling["least"], max_tasks), MaxCapacity=max_tasks
    )
    autoscaling.put_scaling_policy(
        **resource,
        PolicyName="marina-cpu",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": float(options.cpu_percent or scaling["cpu_percent"]),
            "PredefinedMetricSpecification": {"PredefinedMetricType": METRIC},
        },
    )


def delete(session: Any, options: argparse.Namespace) -> None:
    """Delete the service; its task definitions stay, and cost nothing."""
    name = json.loads((HERE / "service.json").read_text())["serviceName"]
    session.client("ecs").delete_service(cluster=options.cluster, service=name, force=True)
    print(f"{name}: deleted")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--region", help="default: that of your AWS configuration")
    actions = parser.add_subparsers(dest="action", required=True)
    create_parser = actions.add_parser("create", help="create or update the service")
    create_parser.add_argument("--image", required=True, help="URI of the image in your registry")
    create_parser.add_argument("--execution-role", required=True, help="ARN of the role that ECS takes to start tasks")
    create_parser.add_argument("--token-secret", required=True, help="ARN of the secret with the token")
    create_parser.add_argument("--log-group", required=True, help="log group of CloudWatch")
    create_parser.add_argument("--subnets", required=True, nargs="+", help="subnets of the tasks")
    create_parser.add_argument("--security-groups", required=True, nargs="+", help="security groups of the tasks")
    create_parser.add_argument(
        "--target-group", help="ARN of a target group of a load balancer, whose health check is /ping"
    )
    create_parser.add_argument(
        "--capacity-provider", help="of the cluster, which adds instances when tasks find none; default: none"
    )
    create_parser.add_argument(
        "--max-tasks", type=int, help="the most that autoscaling starts; default: by scaling.json"
    )
    create_parser.add_argument("--cpu-percent", type=float, help="target of autoscaling; default: by scaling.json")
    delete_parser = actions.add_parser("delete", help="delete the service")
    for subparser in (create_parser, delete_parser):
        subparser.add_argument("--cluster", required=True, help="name of the cluster")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Create or delete the service."""
    options = parse(arguments)
    session = boto3.Session(region_name=options.region)
    (create if options.action == "create" else delete)(session, options)


if __name__ == "__main__":
    main()
