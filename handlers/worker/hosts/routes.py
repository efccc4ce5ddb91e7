"""The routes of URLs, and which of them a request has."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple


class Action(Enum):
    """The purpose of a request."""

    PREDICT = "predict"
    TOKENIZE = "tokenize"
    EMBED_SPARSE = "embed sparse"
    EMBED_ALL = "embed all"
    DESCRIBE = "describe"
    READY = "ready"
    LIVE = "live"
    LIST = "list"
    SERVER = "server"
    LIMITS = "limits"
    INFO = "info"


class Route(NamedTuple):
    """The action, model and version of a request; None stands for the only model, and for its default version."""

    action: Action
    model: str | None = None
    version: str | None = None


NAME, VERSION = (rf"(?P<{part}>[A-Za-z0-9][\w.-]*)" for part in ("model", "version"))
ROUTES = {
    ("POST", rf"/predictions/{NAME}(/{VERSION})?"): Action.PREDICT,
    ("POST", rf"/v1/models/{NAME}:predict"): Action.PREDICT,
    ("POST", rf"/v2/models/{NAME}(/versions/{VERSION})?/infer"): Action.PREDICT,
    ("POST", "/invocations"): Action.PREDICT,
    ("POST", r"(/v[12])?/rerank"): Action.PREDICT,
    ("POST", "/v1/embeddings"): Action.PREDICT,
    ("POST", "/embed_sparse"): Action.EMBED_SPARSE,
    ("POST", "/embed_all"): Action.EMBED_ALL,
    ("POST", "/tokenize"): Action.TOKENIZE,
    ("GET", "/v1/models"): Action.LIST,
    ("GET", rf"/v2/models/{NAME}(/versions/{VERSION})?"): Action.DESCRIBE,
    ("GET", rf"/models/{NAME}(/{VERSION})?"): Action.DESCRIBE,
    ("GET", rf"/v2/models/{NAME}(/versions/{VERSION})?/ready"): Action.READY,
    ("GET", rf"/v1/models/{NAME}"): Action.READY,
    ("GET", "/ping"): Action.READY,
    ("GET", "/health"): Action.READY,
    ("GET", "/v2/health/ready"): Action.READY,
    ("GET", "/v2/health/live"): Action.LIVE,
    ("GET", "/v2"): Action.SERVER,
    ("GET", "/execution-parameters"): Action.LIMITS,
    ("GET", "/info"): Action.INFO,
}
_COMPILED = [(method, re.compile(pattern), action) for (method, pattern), action in ROUTES.items()]


def route_of(method: str, path: str) -> Route | None:
    """The route of a request; None if there is no such URL."""
    for route_method, pattern, action in _COMPILED:
        match = pattern.fullmatch(path)
        if match and route_method == method:
            return Route(action, **match.groupdict())
    return None


def methods_of(path: str) -> list[str]:
    """The methods that a path has; none if there is no such URL."""
    return [method for method, pattern, _ in _COMPILED if pattern.fullmatch(path)]
