"""Which models of a bundle a request is for: `"model": NAME`, or `"models": [NAME, ...]` for several answers."""

from __future__ import annotations

from collections.abc import Sequence

from handlers.worker.errors import RequestError
from handlers.worker.request.body import Body
from handlers.worker.request.text import quote
from handlers.worker.values import Json


def select(body: Body, names: Sequence[str]) -> tuple[dict[str, Body], bool]:
    """The body for each model that a request is for, as if it were for that model alone.

    With "models", the parameters are by model: {"parameters": {NAME: {...}}}. In the Open Inference Protocol, "model"
    is one of its parameters.

    Args:
        body: the decoded body.
        names: the models of the bundle.

    Returns:
        The bodies by model, and whether the answer has an entry for each model.

    Raises:
        RequestError: the body names no model of the bundle.
    """
    value = body.value
    if not isinstance(value, dict):
        raise RequestError("NoModel", f'a bundle needs JSON with a "model": {_join(names)}')
    if "models" in value:
        return _select_several(body, value, names), True
    if "model" in value:
        name, rest = value["model"], {key: item for key, item in value.items() if key != "model"}
    elif isinstance(value.get("parameters"), dict) and "model" in value["parameters"]:
        name = value["parameters"]["model"]
        parameters = {key: item for key, item in value["parameters"].items() if key != "model"}
        rest = {**value, "parameters": parameters}
    else:
        raise RequestError("NoModel", f'the JSON body needs a "model": {_join(names)}')
    return {_checked_name(name, names): body._replace(value=rest)}, False


def _select_several(body: Body, value: dict[str, Json], names: Sequence[str]) -> dict[str, Body]:
    requested = value["models"]
    if "model" in value:
        raise RequestError("InvalidBody", 'the JSON body has "model" and "models"; leave one out')
    if not isinstance(requested, list) or not requested:
        raise RequestError("InvalidBody", f'"models" must be a list of models: {_join(names)}')
    for number, name in enumerate(requested):
        if _checked_name(name, names) in requested[:number]:
            raise RequestError("InvalidBody", f'"models" has {quote(name)} twice')
    parameters = {} if value.get("parameters") is None else value["parameters"]
    if not isinstance(parameters, dict):
        raise RequestError("InvalidParameter", '"parameters" must be an object')
    unknown = sorted(set(parameters) - set(requested))
    if unknown:
        message = (
            f'with "models", the parameters are by model: {{NAME: {{...}}}}; {quote(unknown[0])} is not one of them'
        )
        raise RequestError("InvalidParameter", message)
    rest = {key: item for key, item in value.items() if key not in ("models", "parameters")}
    return {
        name: body._replace(value={**rest, **({"parameters": parameters[name]} if name in parameters else {})})
        for name in requested
    }


def _checked_name(name: Json, names: Sequence[str]) -> str:
    if not isinstance(name, str) or name not in names:
        label = quote(name) if isinstance(name, str) else "that"
        raise RequestError("NoModel", f"the bundle has no model {label}; it has: {_join(names)}")
    return name


def _join(names: Sequence[str]) -> str:
    return ", ".join(names)
