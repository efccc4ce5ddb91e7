"""The tokens of texts, without the model: `{"tokenize": [...]}`.

The answer is that of text-embeddings-inference's `/tokenize`: for each instance a list of
`{"id": 7592, "text": "hello", "special": false, "start": 0, "stop": 5}`. `start` and `stop` are characters of the text
with its prompt, and null for special tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from handlers.worker.errors import RequestError
from handlers.worker.request.body import Body
from handlers.worker.request.instances import Answered, Request, RequestLimits, check_count, read_instance
from handlers.worker.request.parameters import read_parameters_beside
from handlers.worker.request.schema import Schema
from handlers.worker.values import Json

NAME = "tokens"
FIELDS = {"tokenize", "add_special_tokens", "parameters", "model"}  # the URL selects the model
SPECIAL = "special"  # of the details: whether special tokens are added


def recognises(value: Json, _: Schema) -> bool:
    """Whether a JSON body has "tokenize"."""
    return isinstance(value, dict) and "tokenize" in value


def read(body: Body, schema: Schema, limits: RequestLimits, defaults: Mapping[str, Json]) -> Request:
    """Read one instance or several; parameters of the task may be fields of the same object."""
    value = body.value
    parameters = read_parameters_beside(value, FIELDS, schema.parameters, defaults)
    special = value.get("add_special_tokens", True)
    if not isinstance(special, bool):
        raise RequestError("InvalidBody", '"add_special_tokens" must be true or false')
    items = value["tokenize"] if isinstance(value["tokenize"], list) else [value["tokenize"]]
    check_count(len(items), "tokenize", limits)
    instances = tuple(read_instance(item, f"tokenize[{i}]", schema.fields, limits) for i, item in enumerate(items))
    return Request(instances, parameters, NAME, {"place": "tokenize[{}]: ", SPECIAL: special})


def write(_: Request, answers: Sequence[Answered], __: Mapping[str, str]) -> Json:
    """The tokens of each instance."""
    return [answered.answer for answered in answers]
