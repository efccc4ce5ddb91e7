"""text/plain, and `{"inputs": ..., "parameters": ...}` like Hugging Face's hosted inference API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from handlers.worker.errors import RequestError
from handlers.worker.request.body import Body
from handlers.worker.request.instances import Answered, Request, RequestLimits, check_count, read_instance
from handlers.worker.request.parameters import read_parameters, read_parameters_beside
from handlers.worker.request.schema import Schema
from handlers.worker.values import Json

NAME = "plain"
EXAMPLE = '{"inputs": "some text"}'
HUB_CLIENT = "hf_hub/"  # huggingface_hub's client; see `Schema.hub_list`


def recognises(value: Json, _: Schema) -> bool:
    """Whether a body is a text or any JSON object: the other protocols are checked first."""
    return isinstance(value, (str, dict))


def read(body: Body, schema: Schema, limits: RequestLimits, defaults: Mapping[str, Json]) -> Request:
    """Read a text or a JSON body; the fields of one instance, and parameters, may also be at its top level."""
    value = body.value
    if isinstance(value, str):
        instance = read_instance(value, "the body", schema.fields, limits)
        return Request((instance,), read_parameters(None, schema.parameters, defaults), NAME, {"single": True})
    fields = schema.fields
    if "inputs" not in value and fields.first in value:
        instance_fields = {name: value[name] for name in fields.names if name in value}
        value = {
            "inputs": instance_fields,
            **{name: item for name, item in value.items() if name not in instance_fields},
        }
    if "inputs" not in value or "instances" in value:
        raise RequestError("InvalidBody", f'the JSON body needs "inputs" or "instances": {EXAMPLE}')
    parameters = read_parameters_beside(value, ("inputs", "parameters"), schema.parameters, defaults)
    inputs = value["inputs"]
    if not isinstance(inputs, list):
        nested = schema.hub_list and HUB_CLIENT in body.headers.get("user-agent", "")
        details = {"single": True, "nested": nested}
        return Request((read_instance(inputs, "inputs", fields, limits),), parameters, NAME, details)
    check_count(len(inputs), "inputs", limits)
    instances = tuple(read_instance(item, f"inputs[{i}]", fields, limits) for i, item in enumerate(inputs))
    return Request(instances, parameters, NAME, {"single": False, "place": "inputs[{}]: "})


def write(request: Request, answers: Sequence[Answered], _: Mapping[str, str]) -> Json:
    """One answer for a single input, a list of answers for a list of inputs."""
    if not request.details["single"]:
        return [answered.answer for answered in answers]
    answer = answers[0].answer
    return [answer] if request.details.get("nested") and isinstance(answer, list) else answer
