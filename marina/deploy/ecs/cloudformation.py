"""The task and the service as CloudFormation writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml


def template_values(task: Mapping[str, Any], service: Mapping[str, Any]) -> dict[str, str]:
    """The parts of the template that are made from a task definition and a service, as YAML.

    CloudFormation has the fields of ECS's API with a capital in front.

    Args:
        task, service: as `marina.deploy.ecs` makes them, without the values of an account.
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
