"""Makes endpoints of Amazon SageMaker from this folder, and removes them again.

    python deploy.py create [--image IMAGE_URI] [--bucket BUCKET] --role ROLE_ARN [NAME ...]
    python deploy.py delete [NAME ...]

Needs boto3, credentials, and a role that SageMaker may take. endpoints.json has the environment or the model.tar.gz,
the instance type and the target of autoscaling of each model. push.sh builds an image; with AWS's, which needs none,
model.tar.gz goes into the bucket, which the role can read. Running it again updates an endpoint. It exits with 1 if
an endpoint is not in service with what was wanted, as after an update that SageMaker has taken back.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError, WaiterError
from options import parse

HERE = Path(__file__).parent
AWS = "763104351884"  # the account with AWS's images; a few regions have others
REGISTRY = AWS + ".dkr.ecr.{region}.amazonaws.com/{image}"
ECR_IMAGE = re.compile(r"(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/([^:@]+)(?::([^:@]+))?")
VARIANT, DIMENSION, POLICY = "AllTraffic", "sagemaker:variant:DesiredInstanceCount", "marina-invocations"
MOVING = ("Creating", "Updating", "SystemUpdating", "RollingBack")  # an endpoint, which cannot be updated meanwhile
CANARY_S = 300  # for which the first new instance answers beside the old ones
CONCURRENCY = 20  # requests at once of an endpoint without instances


def create(session: Any, options: argparse.Namespace, name: str, model: dict[str, Any]) -> None:
    """Upload the model, and create its endpoint or update it; wait until it is in service."""
    min_instances = options.instances or model["instances"]
    max_instances = max(options.max_instances or model["max_instances"], min_instances)
    instance_type = options.instance_type or model["instance_type"]
    rollout = rollout_of(options, instance_type, min_instances)
    sagemaker = session.client("sagemaker")
    autoscaling = session.client("application-autoscaling")
    image = options.image or REGISTRY.format(region=session.region_name, image=model["image"])
    container: dict[str, Any] = {"Image": pinned(session, image)}
    if "environment" in model:
        container["Environment"] = model["environment"]
    else:
        key = f"{options.prefix}/{name}-{model['sha256'][:12]}/model.tar.gz"
        session.client("s3").upload_file(str(HERE / model["model_data"]), options.bucket, key)
        container["ModelDataUrl"] = f"s3://{options.bucket}/{key}"
    placed, tags = placement(options), tags_of(options)
    # models and configurations cannot be changed, so their names are made from what they hold
    unique = f"{name}-{short(container, options.role, placed)}"
    variant = {"VariantName": VARIANT, "ModelName": unique, **capacity(options, model, instance_type, min_instances)}
    stored = storage(options)
    configuration = f"{name}-{short(variant, stored)}"
    once(
        sagemaker.create_model,
        ModelName=unique,
        ExecutionRoleArn=options.role,
        PrimaryContainer=container,
        **placed,
        **tags,
    )
    once(
        sagemaker.create_endpoint_config,
        EndpointConfigName=configuration,
        ProductionVariants=[variant],
        **stored,
        **tags,
    )
    is_scaled = False
    endpoint = {"EndpointName": name, "EndpointConfigName": configuration}
    if not once(sagemaker.create_endpoint, **endpoint, **tags):
        if settled_status(sagemaker, name) == "Failed":  # SageMaker lets one only delete it
            print(f"{name}: has failed before, and is made anew")
            sagemaker.delete_endpoint(EndpointName=name)
            sagemaker.get_waiter("endpoint_deleted").wait(EndpointName=name)
            sagemaker.create_endpoint(**endpoint, **tags)
        else:
            # the number of instances that autoscaling has chosen stays
            resources = [resource_of(name)]
            scaled = autoscaling.describe_scalable_targets(ServiceNamespace="sagemaker", ResourceIds=resources)
            is_scaled = bool(scaled["ScalableTargets"])
            sagemaker.update_endpoint(**endpoint, RetainAllVariantProperties=is_scaled, **rollout)
    print(f"{name}: waiting until it is in service, some minutes")
    with suppress(WaiterError):  # `check` says why
        sagemaker.get_waiter("endpoint_in_service").wait(EndpointName=name)
    check(sagemaker, name, configuration)
    target = options.invocations_per_minute or model["invocations_per_minute"]
    has_bounds = target or options.instances or options.max_instances
    if not options.serverless_mb and (has_bounds if is_scaled else target and max_instances > min_instances):
        scale(autoscaling, name, min_instances, max_instances, target)
    print(f"{name}: in service")


def settled_status(sagemaker: Any, name: str) -> str:
    """The status of an endpoint, after one that is being made or changed has come to an end."""
    status = sagemaker.describe_endpoint(EndpointName=name)["EndpointStatus"]
    if status in MOVING:
        print(f"{name}: waiting for what was begun before ({status})")
        with suppress(WaiterError):
            sagemaker.get_waiter("endpoint_in_service").wait(EndpointName=name)
        status = sagemaker.describe_endpoint(EndpointName=name)["EndpointStatus"]
    return str(status)


def placement(options: argparse.Namespace) -> dict[str, Any]:
    """Where the containers of a model are, and whom they can reach."""
    isolated = {"EnableNetworkIsolation": True} if options.network_isolation else {}
    if not options.subnets:
        return isolated
    return {**isolated, "VpcConfig": {"Subnets": options.subnets, "SecurityGroupIds": options.security_groups}}


def tags_of(options: argparse.Namespace) -> dict[str, Any]:
    """Tags as AWS writes them."""
    pairs = [tag.partition("=") for tag in options.tag]
    return {"Tags": [{"Key": key, "Value": value} for key, _, value in pairs]} if pairs else {}


def capacity(options: argparse.Namespace, model: dict[str, Any], instance_type: str, instances: int) -> dict[str, Any]:
    """The instances of a variant, or the memory and the requests at once of one without instances."""
    if options.serverless_mb:
        return {"ServerlessConfig": {"MemorySizeInMB": options.serverless_mb, "MaxConcurrency": CONCURRENCY}}
    return {
        "InstanceType": instance_type,
        "InitialInstanceCount": instances,
        "ContainerStartupHealthCheckTimeoutInSeconds": model["startup_s"],
        **({"InferenceAmiVersion": model["hosts"]} if model["hosts"] else {}),
    }


def storage(options: argparse.Namespace) -> dict[str, Any]:
    """The key of the instances' disks, and the bucket for the answers of an endpoint that is asynchronous."""
    key = {"KmsKeyId": options.kms_key} if options.kms_key else {}
    if not options.async_output:
        return key
    return {**key, "AsyncInferenceConfig": {"OutputConfig": {"S3OutputPath": options.async_output}}}


def rollout_of(options: argparse.Namespace, instance_type: str, instances: int) -> dict[str, Any]:
    """How an update replaces instances: with alarms, one new instance first, which any of them takes back.

    A canary has at most half of the instances, so a single instance is replaced as a whole. On Inf1, SageMaker does
    not go back (its page "Deployment guardrails: exclusions").
    """
    if not options.alarm:
        return {}
    if instance_type.startswith("ml.inf1."):
        sys.exit(f"--alarm does nothing on {instance_type}: SageMaker takes no update back on Inf1")
    routing: dict[str, Any] = {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": CANARY_S}
    if instances > 1:
        routing |= {"Type": "CANARY", "CanarySize": {"Type": "INSTANCE_COUNT", "Value": 1}}
    alarms = [{"AlarmName": alarm} for alarm in options.alarm]
    return {
        "DeploymentConfig": {
            "BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing},
            "AutoRollbackConfiguration": {"Alarms": alarms},
        }
    }


def pinned(session: Any, image: str) -> str:
    """An image of ECR by its digest, so that one that was pushed again under its tag makes a new model."""
    match = ECR_IMAGE.fullmatch(image)
    if not match or match[1] == AWS:  # it has a digest, is in another registry, or AWS's, whose tags stay
        return image
    account, region, repository, tag = match.groups()
    try:
        images = session.client("ecr", region_name=region).describe_images(
            registryId=account, repositoryName=repository, imageIds=[{"imageTag": tag or "latest"}]
        )["imageDetails"]
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("AccessDeniedException", "RepositoryNotFoundException"):
            raise
        # of AWS in some regions, or of another team
        print(f"{image}: its digest cannot be read, so it is not pinned ({error})", file=sys.stderr)
        return image
    return f"{image.rpartition(':')[0] if tag else image}@{images[0]['imageDigest']}"


def check(sagemaker: Any, name: str, configuration: str) -> None:
    """End with 1 if an endpoint is not in service with this configuration; the message has SageMaker's reason."""
    endpoint = sagemaker.describe_endpoint(EndpointName=name)
    status, present = endpoint["EndpointStatus"], endpoint.get("EndpointConfigName")
    if status != "InService" or present != configuration:
        reason = endpoint.get("FailureReason", "no reason was given")
        sys.exit(f"{name}: {status}, with {present} instead of {configuration}: {reason}")


def short(*parts: Any) -> str:
    """A name made from values: equal values have equal ones."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def resource_of(name: str) -> str:
    """What autoscaling calls an endpoint."""
    return f"endpoint/{name}/variant/{VARIANT}"


def scale(autoscaling: Any, name: str, min_instances: int, max_instances: int, target: float | None) -> None:
    """Let the number of instances follow the invocations a minute that each of them gets.

    Args:
        autoscaling: the client.
        name: of the endpoint.
        min_instances, max_instances: the bounds.
        target: the invocations a minute; None for as many as before.
    """
    resource = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": resource_of(name),
        "ScalableDimension": DIMENSION,
    }
    autoscaling.register_scalable_target(**resource, MinCapacity=min_instances, MaxCapacity=max_instances)
    if target:
        autoscaling.put_scaling_policy(
            **resource,
            PolicyName=POLICY,
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration={
                "TargetValue": float(target),
                "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"},
            },
        )
    rate = f"{target} invocations" if target else "as many invocations as before"
    print(f"{name}: {min_instances} to {max_instances} instances, {rate} a minute on each")


def delete(session: Any, name: str) -> bool:
    """Delete an endpoint, its configuration and its models; what autoscaling knows of it goes with it.

    Returns:
        False if there is none.
    """
    sagemaker = session.client("sagemaker")
    try:
        configuration = sagemaker.describe_endpoint(EndpointName=name)["EndpointConfigName"]
    except ClientError as error:
        print(f"{name}: not deleted: {error}")
        return False
    variants = sagemaker.describe_endpoint_config(EndpointConfigName=configuration)["ProductionVariants"]
    sagemaker.delete_endpoint(EndpointName=name)
    sagemaker.delete_endpoint_config(EndpointConfigName=configuration)
    for variant in variants:
        sagemaker.delete_model(ModelName=variant["ModelName"])
    print(f"{name}: deleted; its model.tar.gz stays in the bucket")
    return True


def once(call: Any, **fields: Any) -> bool:
    """Create something; False if it exists already."""
    try:
        call(**fields)
    except ClientError as error:
        exists = ("already existing", "already exists")
        if error.response["Error"]["Code"] == "ValidationException" and any(
            part in error.response["Error"]["Message"] for part in exists
        ):
            return False
        raise
    return True


def main(arguments: Sequence[str] | None = None) -> None:
    """Do it for every model."""
    endpoints = json.loads((HERE / "endpoints.json").read_text())
    options = parse(arguments, endpoints, __doc__)
    session = boto3.Session(region_name=options.region)
    names = options.names or list(endpoints)
    if options.action == "create":
        for name in names:
            create(session, options, name, endpoints[name])
    else:
        missing = [name for name in names if not delete(session, name)]
        raise SystemExit(1 if missing else 0)


if __name__ == "__main__":
    main()
