"""KServe v1: `{"instances": [...]}` and `{"predictions": [...]}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from handlers.worker.errors import RequestError
from handlers.worker.request.body import Body
from handlers.worker.request.instances import Answered, Request, RequestLimits, check_count, read_instance
from handlers.worker.request.parameters import check_fields, read_parameters
from handlers.worker.request.schema import Schema
from handlers.worker.values import Json

NAME = "kserve"


def recognises(value: Json, _: Schema) -> bool:
    """Whether a body has "instances" and no "inputs", which belong to other protocols."""
    return isinstance(value, dict) and "instances" in value and "inputs" not in value


def read(body: Body, schema: Schema, limits: RequestLimits, defaults: Mapping[str, Json]) -> Request:
    """Read a body with "instances" and optional "parameters"."""
    value = body.value
    check_fields(value, {"instances", "parameters"})
    items = value["instances"]
    if not isinstance(items, list):
        raise RequestError("InvalidBody", '"instances" must be a list')
    check_count(len(items), "instances", limits)
    instances = tuple(read_instance(item, f"instances[{i}]", schema.fields, limits) for i, item in enumerate(items))
    parameters = read_parameters(value.get("parameters"), schema.parameters, defaults)
    return Request(instances, parameters, NAME, {"place": "instances[{}]: "})


def write(_: Request, answers: Sequence[Answered], __: Mapping[str, str]) -> Json:
    """The predictions, and the numbers of the instances whose texts were truncated, if any."""
    document: dict[str, Json] = {"predictions": [answered.answer for answered in answers]}
    truncated = [number for number, answered in enumerate(answers) if answered.truncated]
    return {**document, "truncated": truncated} if truncated else document
