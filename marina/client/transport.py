"""Sends requests over HTTP with keep-alive connections, or over TorchServe's gRPC API."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import requests

from marina.client.answers import Json, error_of, grpc_error, http_error, is_error, read_answer
from marina.client.retries import with_retries
from marina.client.tokens import Token, authorization, call_metadata, with_token
from marina.errors import MarinaError, TimedOutError, UnreachableError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
JSON_LINES = "application/jsonlines"
BULK = {"X-Marina-Priority": "bulk"}  # lets the requests of people pass, where the host knows it
PREDICTIONS = "/org.pytorch.serve.grpc.inference.InferenceAPIsService/Predictions"


class Sent(NamedTuple):
    """The answer to a body of lines: its lines, and the numbers of those whose texts were truncated."""

    body: bytes
    truncated: frozenset[int]


class Transport(Protocol):
    """One protocol to reach a server."""

    def predict(self, model: str, document: Json) -> Json:
        """Send a JSON document and return the answer; ClientError if there is none."""

    def send_lines(self, model: str, body: bytes, timeout_s: float) -> Sent:
        """Send a body of JSON Lines, a request on each, once; ClientError if it is refused as a whole."""

    def close(self) -> None:
        """Close connections."""


class HttpTransport:
    """HTTP with a connection pool."""

    def __init__(self, url: str, token: Token, timeout_s: float, certificates: str | Path | None, retry: bool) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        self._retry = retry
        self._verify = None if certificates is None else str(_check_certificates(certificates))
        parts = urlsplit(self._url)
        if self._verify and parts.scheme != "https":
            raise MarinaError(f"{url}: certificates are for TLS, and this URL asks for none; write https://")
        self._session = requests.Session()
        self._session.auth = lambda request: request  # else a netrc file would replace the token
        if parts.hostname in LOOPBACK:
            # requests to this machine must not go through a proxy from the environment
            self._session.trust_env = False

    def predict(self, model: str, document: Json) -> Json:
        url = f"{self._url}/predictions/{model}"
        body = json.dumps(document, allow_nan=False).encode()

        def send(timeout_s: float) -> Json:
            return with_token(self._token, lambda token: self._post(url, body, token, timeout_s))

        return with_retries(send, self._timeout_s, self._retry)

    def send_lines(self, model: str, body: bytes, timeout_s: float) -> Sent:
        """Send a body of JSON Lines once; ClientError if it is refused as a whole."""
        url = f"{self._url}/predictions/{model}"
        headers = {"Content-Type": JSON_LINES, **BULK}
        response = with_token(self._token, lambda token: self._send(url, body, headers, token, timeout_s))
        truncated = response.headers.get("x-marina-truncated", "")
        return Sent(response.content, frozenset(map(int, truncated.split(","))) if truncated else frozenset())

    def _post(self, url: str, body: bytes, token: str | None, timeout_s: float) -> Json:
        response = self._send(url, body, {"Content-Type": "application/json"}, token, timeout_s)
        content_type = response.headers.get("Content-Type", "no Content-Type")[:80]
        return read_answer(response.content, self._url, f"an answer (HTTP {response.status_code}, {content_type})")

    def _send(
        self, url: str, body: bytes, headers: Mapping[str, str], token: str | None, timeout_s: float
    ) -> requests.Response:
        headers = {**headers, **authorization(token)}
        try:
            # pass verify with each request, because REQUESTS_CA_BUNDLE in the environment overrides the session's
            response = self._session.post(url, data=body, headers=headers, timeout=timeout_s, verify=self._verify)
        except requests.Timeout as error:
            raise TimedOutError(f"no answer from {self._url}: {error}", transient=True) from None
        except requests.RequestException as error:
            transient = not isinstance(error, (requests.exceptions.SSLError, ValueError))  # ValueError: an invalid URL
            raise UnreachableError(f"no answer from {self._url}: {error}", transient=transient) from None
        if not response.ok:
            raise http_error(response.status_code, response.content, response.headers.get("Retry-After"))
        return response

    def close(self) -> None:
        self._session.close()


class GrpcTransport:
    """TorchServe's gRPC API. Errors of the handler are in the body of the answer, not in the gRPC status."""

    def __init__(
        self, address: str, token: Token, timeout_s: float, tls: bool, certificates: str | Path | None, retry: bool
    ) -> None:
        from marina.client.messages import prediction_messages

        self._address = address
        self._token = token
        self._timeout_s = timeout_s
        self._retry = retry
        self._request, response = prediction_messages()
        self._channel = _open_channel(address, tls, certificates)
        self._call = self._channel.unary_unary(
            PREDICTIONS,
            request_serializer=self._request.SerializeToString,
            response_deserializer=response.FromString,
        )

    def predict(self, model: str, document: Json) -> Json:
        body = json.dumps(document, allow_nan=False).encode()
        request = self._request(model_name=model, input={"body": body})

        def send(timeout_s: float) -> Json:
            return with_token(self._token, lambda token: self._send(request, token, timeout_s))

        return with_retries(send, self._timeout_s, self._retry)

    def _send(self, request: Any, token: str | None, timeout_s: float) -> Json:
        import grpc

        try:
            response = self._call(request, metadata=call_metadata(token), timeout=timeout_s)
        except grpc.RpcError as error:
            raise grpc_error(error, self._address) from None
        answer = read_answer(response.prediction, self._address, "a prediction")
        if is_error(answer):
            raise error_of(answer["code"], answer)
        return answer

    def send_lines(self, model: str, body: bytes, timeout_s: float) -> Sent:
        raise MarinaError("requests are streamed over HTTP only", "make the client with Client.http")

    def close(self) -> None:
        self._channel.close()


def _open_channel(address: str, tls: bool, certificates: str | Path | None) -> Any:
    import grpc

    options = [("grpc.max_receive_message_length", -1)]  # as HTTP has it; the default is less than the largest answer
    if certificates is not None:
        trusted = _check_certificates(certificates).read_bytes()
        return grpc.secure_channel(address, grpc.ssl_channel_credentials(trusted), options)
    if tls:
        return grpc.secure_channel(address, grpc.ssl_channel_credentials(), options)
    return grpc.insecure_channel(address, options)


def _check_certificates(path: str | Path) -> Path:
    """Check that a PEM file contains certificates and return its path; MarinaError if it does not."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except ssl.SSLError:
        raise MarinaError(f"{path} holds no certificates; give a PEM file of the authorities to trust") from None
    except OSError as error:
        raise MarinaError(
            f"the certificates {path} cannot be read: {error.strerror}; give a PEM file of the authorities to trust"
        ) from None
    return Path(path)
