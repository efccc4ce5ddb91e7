"""How requests travel: HTTP with kept connections, or TorchServe's gRPC API."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import urlsplit

import requests

from marina.errors import ClientError, Failed, Overloaded, Refused, Unauthorized, UnknownModel, Unreachable

Json = Any
Token = str | Callable[[], str] | None
LOOPBACK = ("127.0.0.1", "localhost", "::1")
PREDICTIONS = "/org.pytorch.serve.grpc.inference.InferenceAPIsService/Predictions"


class Transport(Protocol):
    """One way to a server."""

    def ask(self, model: str, document: Json) -> Json:
        """The answer to a JSON document; ClientError otherwise."""

    def close(self) -> None:
        """Close connections."""


class HttpTransport:
    """HTTP with a pool of connections."""

    def __init__(self, url: str, token: Token, timeout_s: float) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        self._session = requests.Session()
        if urlsplit(self._url).hostname in LOOPBACK:
            # no proxy of the environment for this machine itself
            self._session.trust_env = False

    def ask(self, model: str, document: Json) -> Json:
        headers = {"Content-Type": "application/json", **_authorization(self._token)}
        body = json.dumps(document, allow_nan=False).encode()
        url = f"{self._url}/predictions/{model}"
        try:
            response = self._session.post(url, data=body, headers=headers, timeout=self._timeout_s)
        except requests.RequestException as error:
            raise Unreachable(f"no answer from {self._url}: {error}") from None
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if not response.ok:
            raise error_of(response.status_code, answer)
        return answer

    def close(self) -> None:
        self._session.close()


class GrpcTransport:
    """TorchServe's gRPC API. It carries no status of an instance: an error is in the answer."""

    def __init__(self, address: str, token: Token, timeout_s: float) -> None:
        import grpc

        from marina.client.messages import prediction_messages

        self._address = address
        self._token = token
        self._timeout_s = timeout_s
        self._request, response = prediction_messages()
        self._channel = grpc.insecure_channel(address)
        self._call = self._channel.unary_unary(
            PREDICTIONS,
            request_serializer=self._request.SerializeToString,
            response_deserializer=response.FromString,
        )

    def ask(self, model: str, document: Json) -> Json:
        import grpc

        body = json.dumps(document, allow_nan=False).encode()
        metadata = call_metadata(self._token)
        request = self._request(model_name=model, input={"body": body})
        try:
            response = self._call(request, metadata=metadata, timeout=self._timeout_s)
        except grpc.RpcError as error:
            raise _grpc_error(error, self._address) from None
        answer = json.loads(response.prediction)
        if isinstance(answer, dict) and {"code", "type", "error"} <= set(answer):
            raise error_of(answer["code"], answer)
        return answer

    def close(self) -> None:
        self._channel.close()


def error_of(status: int, answer: Json) -> ClientError:
    """The error for an HTTP status and the body that came with it, ours or TorchServe's."""
    fields = answer if isinstance(answer, dict) else {}
    message = str(fields.get("error") or fields.get("message") or f"HTTP status {status}")
    kind = str(fields.get("type", ""))
    if kind == "InvalidKeyException":
        return Unauthorized(message)
    if kind in ("ModelNotFoundException", "ModelVersionNotFoundException"):
        return UnknownModel(message)
    if status == 503:
        return Overloaded(message)
    if 400 <= status < 500:
        return Refused(message, kind, status)
    return Failed(message)


def _grpc_error(error: Any, address: str) -> ClientError:
    import grpc

    # TorchServe puts the name of its exception on a second line
    message, _, exception = str(error.details()).partition("\n")
    code = error.code()
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        return Unreachable(f"no answer from {address}: {message}")
    if code == grpc.StatusCode.PERMISSION_DENIED:
        return Unauthorized(message)
    if "NotFoundException" in exception:
        return UnknownModel(message)
    if "ServiceUnavailableException" in exception:
        return Overloaded(message)
    return Failed(message)


def call_metadata(token: Token) -> list[tuple[str, str]]:
    """What goes with each gRPC call: TorchServe looks for the token only in calls that say that they are gRPC."""
    given = [(name.lower(), value) for name, value in _authorization(token).items()]
    return [("protocol", "gRPC"), ("channel", "client"), *given]


def _authorization(token: Token) -> dict[str, str]:
    value = token() if callable(token) else token
    return {} if value is None else {"Authorization": f"Bearer {value}"}
