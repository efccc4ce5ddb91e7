"""The command line of deploy.py."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any


def parse(
    arguments: Sequence[str] | None, endpoints: Mapping[str, Mapping[str, Any]], description: str | None = None
) -> argparse.Namespace:
    """The options of the command line; it ends with 2 if they cannot be followed."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--region", help="default: that of your AWS configuration")
    actions = parser.add_subparsers(dest="action", required=True)
    create_parser = actions.add_parser("create", help="create or update endpoints")
    add = create_parser.add_argument
    add("--bucket", help="bucket of S3 for model.tar.gz; for endpoints of AWS's image")
    add("--prefix", default="marina", help="folder in the bucket")
    add("--role", required=True, help="ARN of the role that SageMaker takes")
    add("--image", help="URI of the image that push.sh built; default: AWS's, where endpoints.json names it")
    add("--instance-type", help="default: by endpoints.json")
    add("--instances", type=int, help="that autoscaling keeps at least; default: by endpoints.json")
    add("--max-instances", type=int, help="the most that it starts; default: by endpoints.json")
    add("--invocations-per-minute", type=float, help="target of autoscaling; default: by endpoints.json")
    add("--alarm", action="append", default=[], metavar="NAME", help="alarm of CloudWatch that takes an update back")
    add(
        "--tag",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="for the endpoint, its models and configurations",
    )
    add("--subnets", nargs="+", default=[], metavar="ID", help="subnets of a VPC; needs --security-groups")
    add("--security-groups", nargs="+", default=[], metavar="ID")
    add("--kms-key", help="key for the disks of instances")
    add("--network-isolation", action="store_true", help="containers reach nothing; needs an image with all packages")
    add("--async-output", metavar="S3_URI", help="make the endpoint asynchronous, with its answers there")
    add("--serverless-mb", type=int, choices=range(1024, 6145, 1024), help="memory of an endpoint without instances")
    delete_parser = actions.add_parser("delete", help="delete endpoints")
    for subparser in (create_parser, delete_parser):
        subparser.add_argument(
            "names", nargs="*", metavar="NAME", help=f"of {', '.join(endpoints)}; default: all of them"
        )
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(endpoints)
    if unknown:
        parser.error(f"no model {unknown.pop()!r} in endpoints.json; there are {', '.join(endpoints)}")
    if options.action == "create":
        refuse(parser, options, [endpoints[name] for name in options.names or endpoints])
    return options


def refuse(parser: argparse.ArgumentParser, options: argparse.Namespace, models: Sequence[Mapping[str, Any]]) -> None:
    """End with 2 if options do not go together, or one is missing."""
    if not options.image and any("environment" in model for model in models):
        parser.error("give --image: ./push.sh ACCOUNT REGION REPOSITORY builds and pushes it")
    if not options.bucket and any("model_data" in model for model in models):
        parser.error("give --bucket: it gets model.tar.gz")
    if bool(options.subnets) != bool(options.security_groups):
        parser.error("--subnets and --security-groups go together")
    least = options.instances or max(model["instances"] for model in models)
    if options.max_instances and options.max_instances < least:
        parser.error(f"--max-instances {options.max_instances} is less than --instances {least}; give both")
    if any("=" not in tag for tag in options.tag):
        parser.error("a tag is KEY=VALUE")
    instances = (
        "instance_type",
        "instances",
        "max_instances",
        "subnets",
        "kms_key",
        "network_isolation",
        "async_output",
        "alarm",
    )
    given = [name for name in instances if getattr(options, name)]
    if options.serverless_mb and given:
        parser.error(f"an endpoint without instances takes no --{given[0].replace('_', '-')}")
