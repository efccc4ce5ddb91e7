"""Makes a service of Amazon ECS from this folder, and removes it again.

    python deploy.py create --cluster CLUSTER --image IMAGE_URI --execution-role ROLE_ARN --token-secret SECRET_ARN \\
        --log-group GROUP --subnets subnet-1 subnet-2 --security-groups sg-1 [--target-group ARN]
    python deploy.py delete --cluster CLUSTER

Needs boto3 and credentials. The secret of Secrets Manager holds the token that requests must bring. Running it again
rolls the service to a new revision; tasks answer what they have before they end.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import boto3

HERE = Path(__file__).parent
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
    services = ecs.describe_services(cluster=options.cluster, services=[name])["services"]
    if any(existing["status"] == "ACTIVE" for existing in services):
        ecs.update_service(cluster=options.cluster, service=name, taskDefinition=revision)
    else:
        ecs.create_service(cluster=options.cluster, taskDefinition=revision, **service)
    ecs.get_waiter("services_stable").wait(cluster=options.cluster, services=[name])
    scale(session.client("application-autoscaling"), options, name)
    print(f"{name}: runs {revision}")


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
