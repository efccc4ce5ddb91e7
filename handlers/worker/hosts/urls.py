"""The URLs of TorchServe, KServe, Open Inference, OpenAI, text-embeddings-inference and SageMaker, for hosts without.

They ask for a token, and pass requests on to models.
"""

from __future__ import annotations

import asyncio
import hmac
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Protocol

import orjson

from handlers.worker.answering.reply import JSON, RETRY_AFTER, Reply, error_reply
from handlers.worker.errors import RequestError
from handlers.worker.hosts.routes import Action, Route, methods_of, route_of
from handlers.worker.hosts.tei import info, multi_vector_body, sparse_body, tokenize_body
from handlers.worker.request.compression import decompress
from handlers.worker.request.documents import dump
from handlers.worker.telemetry.tracing import REQUEST_START, returned_headers
from handlers.worker.values import Json

BODY_BYTES = 6_553_500  # the largest body where it is not known what models take: TorchServe's default
# headers that say how a body is written; without them it is JSON if it looks so
OF_BODY = ("content-type", "content-encoding", "inference-header-content-length")
MAX_NAME = 100  # characters of a model's name that are looked at
CUSTOM_ATTRIBUTES = "x-amzn-sagemaker-custom-attributes"
# how a body is rewritten for the model whose name is given too
BODIES: Mapping[Action, Callable[[bytes, str], bytes]] = {
    Action.TOKENIZE: tokenize_body,
    Action.EMBED_SPARSE: sparse_body,
    Action.EMBED_ALL: multi_vector_body,
}
WITH_TOKEN = (Action.PREDICT, Action.DESCRIBE, Action.LIST, Action.INFO, *BODIES)


class ServedModel(Protocol):
    """A model, here or elsewhere."""

    @property
    def body_bytes(self) -> int:
        """The largest body that it takes."""

    async def reply(self, body: bytes, headers: Mapping[str, str], version: str | None) -> Reply:
        """The reply of a version of the model, by default of its default version."""

    async def describe(self, version: str | None) -> Json:
        """The description of a version; None if there is no such version. An exception means no answer."""

    async def is_ready(self, version: str | None) -> bool | None:
        """Whether a version can answer; None if there is no such version."""


class Urls:
    """The URLs, in front of models.

    Args:
        models: the models by name.
        tokens: requests must send one of them as `Authorization: Bearer TOKEN`; none if they need none.
        dead_s: after so many seconds in which a model could not answer, the server is not alive any more.
        limits: gives the answer to SageMaker's Batch Transform, which asks for limits; None if there are none.
        coming: the names of models that are still to be added; the server is not ready before, and requests get 503.
    """

    def __init__(
        self,
        models: Mapping[str, ServedModel],
        tokens: Sequence[str],
        dead_s: float = math.inf,
        limits: Callable[[], Json] | None = None,
        coming: Collection[str] = (),
    ) -> None:
        self._models = models
        self._tokens = tokens
        self._dead_s, self._failing_since = dead_s, math.inf
        self._limits, self._coming = limits, coming

    async def answer(
        self, method: str, path: str, headers: Mapping[str, str], body: Callable[[int], Awaitable[bytes]]
    ) -> Reply:
        """Answer a request.

        Args:
            method, path: the method and path of the request.
            headers: the request's headers, with lower-case names.
            body: reads the body, which may end when it has more than so many bytes.
        """
        path = path.rstrip("/") or "/"
        route = route_of(method, path)
        if route is None and (methods := methods_of(path)):
            allowed = ", ".join(methods)
            reply = refusal(405, "MethodNotAllowed", f"send {allowed}", {"allow": allowed})
        elif route is None:
            urls = "/predictions/NAME, /v1, /v2, /rerank, /embed_..., /tokenize, /info, /invocations, /ping, /health"
            reply = refusal(404, "NotFound", f"there are {urls}")
        elif route.action in WITH_TOKEN and not self.allows(headers):
            reply = unauthorized("send the header Authorization: Bearer TOKEN")
        else:
            reply = await self._answer(route, headers, body)
        return reply._replace(headers={**reply.headers, **returned_headers(headers)})

    async def _answer(self, route: Route, headers: Mapping[str, str], body: Callable[[int], Awaitable[bytes]]) -> Reply:
        if route.action is Action.LIVE:
            return await self._liveness()
        if route.action is Action.SERVER:
            return _document({"name": "marina", "version": "2", "extensions": []})
        if route.action is Action.LIMITS:
            return _document(self._limits()) if self._limits else refusal(404, "NotFound", "there are no limits")
        if route.action is Action.LIST:  # as OpenAI's clients read it
            entries: list[Json] = [{"id": name, "object": "model", "owned_by": "marina"} for name in self._models]
            return _document({"object": "list", "data": entries})
        if route.model is not None and route.model not in self._models:
            return self._unknown_model(route.model, self._models if self.allows(headers) else ())
        if route.action is Action.READY:
            return await self._readiness(route.model, route.version)
        if route.action is Action.DESCRIBE and route.model:
            try:
                description = await self._models[route.model].describe(route.version)
            except Exception:  # no worker answers
                return refusal(503, "NotReady", f"{route.model} has no worker that is READY", RETRY_AFTER)
            return unknown_version(route.model, route.version) if description is None else _document(description)
        if route.action is Action.INFO:
            return await self._info()
        return await self._predict(route, headers, body)

    async def _predict(
        self, route: Route, headers: Mapping[str, str], body: Callable[[int], Awaitable[bytes]]
    ) -> Reply:
        """Pass a request on to its model."""
        limits = [model.body_bytes for name, model in self._models.items() if route.model in (None, name)]
        limit = max(limits, default=BODY_BYTES)
        if int(headers.get("content-length") or 0) > limit:
            return _too_large(limit)
        content = await body(limit)
        if len(content) > limit:  # a body in chunks has no content-length
            return _too_large(limit)
        # it waits from now on: a client may send its body slowly
        timed_headers = {REQUEST_START: f"t={time.time():.3f}", **headers}
        name, original = route.model or self._model_of(headers), content
        try:
            if name is None:
                name, content = _named_in(content, headers.get("content-encoding", ""), limit)
            if route.action in BODIES:
                content = BODIES[route.action](content, name)
        except RequestError as error:
            return error_reply(error)
        if content is not original:
            timed_headers = {key: value for key, value in timed_headers.items() if key not in OF_BODY}
        if name not in self._models:
            return self._unknown_model(name, self._models)
        return await self._models[name].reply(content, timed_headers, route.version)

    def _model_of(self, headers: Mapping[str, str]) -> str | None:
        """The model of a request whose URL names none: the only one, or by a header; None if the body must name it."""
        return next(iter(self._models)) if len(self._models) == 1 else headers.get(CUSTOM_ATTRIBUTES)

    async def _info(self) -> Reply:
        """The descriptions of all models, as text-embeddings-inference has them."""
        names = list(self._models)  # they may change meanwhile
        try:
            described = await asyncio.gather(*(self._models[name].describe(None) for name in names))
        except Exception:  # no worker of a model answers
            described = []
        if not described or not all(described):
            return refusal(503, "NotReady", "no worker of a model answers now", RETRY_AFTER)
        return _document(info(dict(zip(names, described, strict=True))))

    def _unknown_model(self, name: str, others: Iterable[str]) -> Reply:
        """The reply to a request for a model that is not there, with those others that may be named."""
        if name in self._coming:
            return refusal(503, "NotReady", f"{name} is not served yet", RETRY_AFTER)
        name, known = name[:MAX_NAME], list(others)
        near = get_close_matches(name, known, 1)
        names = f"; there are {', '.join(known)}" if known else ""
        if not name:
            return refusal(404, "UnknownModel", f'name the model in the URL, or as "model" in a JSON object{names}')
        hint = f"; did you mean {near[0]}?" if near else names
        return refusal(404, "UnknownModel", f"there is no model {name!r}{hint}")

    async def _liveness(self) -> Reply:
        """Whether the server is alive: not if a model has been without workers for so long that they do not come."""
        if math.isfinite(self._dead_s):
            ready = all(await asyncio.gather(*(model.is_ready(None) for model in self._models.values())))
            self._failing_since = math.inf if ready else min(self._failing_since, time.monotonic())
        alive = time.monotonic() - self._failing_since < self._dead_s
        return _document({"live": alive}, 200 if alive else 503)

    async def _readiness(self, name: str | None, version: str | None) -> Reply:
        """Whether a model answers, or all models if `name` is None."""
        names = [name] if name else list(self._models)
        ready = await asyncio.gather(*(self._models[model].is_ready(version) for model in names))
        if name and ready[0] is None:
            return unknown_version(name, version)
        missing: list[Json] = [] if name else [*self._coming]
        missing += [model for model, is_ready in zip(names, ready, strict=True) if not is_ready]
        return _document({"name": name or "marina", "ready": not missing, "missing": missing}, 503 if missing else 200)

    def allows(self, headers: Mapping[str, str]) -> bool:
        """Whether headers have a token, or none is needed."""
        return not self._tokens or bears_token(headers.get("authorization", "").encode(), self._tokens)


def _named_in(content: bytes, encoding: str, max_bytes: int) -> tuple[str, bytes]:
    """The model that a body names, and the body without it, as not all models take it; "" if it names none."""
    try:
        document = orjson.loads(decompress(content, encoding, max_bytes))
    except orjson.JSONDecodeError:
        return "", content
    if not isinstance(document, dict) or not isinstance(document.get("model"), str):
        return "", content
    name = document.pop("model")
    return name, orjson.dumps(document)


def bears_token(authorization: bytes, tokens: Sequence[str]) -> bool:
    """Whether a header `Authorization` has one of the tokens."""
    # all are compared, so that the time says nothing
    matches = [hmac.compare_digest(authorization, f"Bearer {token}".encode()) for token in tokens]
    return any(matches)


def unauthorized(message: str) -> Reply:
    """The reply to a request without the token that it needs."""
    return refusal(401, "Unauthorized", message, {"www-authenticate": "Bearer"})


def refusal(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> Reply:
    """The reply to a request that no model has seen; "message" is the name that TorchServe gives to the reason."""
    return Reply(status, dump({"code": status, "type": kind, "error": message, "message": message}), headers or {})


def unknown_version(name: str, version: str | None) -> Reply:
    """The reply to a request for a version that a model does not have."""
    return refusal(404, "UnknownModel", f"{name} has no version {version}")


def _too_large(limit: int) -> Reply:
    return error_reply(RequestError("BodyTooLarge", f"the body has more than {limit} bytes"))


def read_tokens(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The tokens of which requests must send one, from MARINA_TOKEN_FILE or MARINA_TOKEN; none with MARINA_OPEN=true.

    Two may be given, with a space or a line break between, while one takes the place of the other.

    Raises:
        ValueError: none of these variables is set.
    """
    file = environment.get("MARINA_TOKEN_FILE")
    text = Path(file).read_text(encoding="utf-8") if file else environment.get("MARINA_TOKEN", "")
    tokens = tuple(text.split())
    if not tokens and environment.get("MARINA_OPEN") != "true":
        raise ValueError("set MARINA_TOKEN_FILE or MARINA_TOKEN, or MARINA_OPEN=true, on all machines")
    return tokens


def _document(value: Json, status: int = 200) -> Reply:
    return Reply(status, dump(value), {}, JSON)
