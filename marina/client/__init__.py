"""A client for served models, over HTTP or gRPC.

Example:
    from marina.client import Client

    client = Client.http("http://127.0.0.1:8080", token="...")
    client.classify("ava-intent", ["change company address"], top_k=1)
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from marina.client.stream import Limits, RequestLine, Sender, Streamed, document_of, line_of, stream, stream_async
from marina.client.tasks import TaskMethods
from marina.client.tokens import Token
from marina.client.transport import GrpcTransport, HttpTransport, Transport
from marina.client.types import Answer, Entity, LabelScore, RankedDocument, Text, list_of

__all__ = ["Answer", "Client", "Entity", "LabelScore", "Limits", "RankedDocument", "Streamed", "Text"]

Json = Any
DEFAULT_LIMITS = Limits(6_000_000, 6_000_000, 60)
PARALLEL_REQUESTS = 4  # of a stream
PATIENCE_S = 60.0


class Client(TaskMethods):
    """A client for the models of one server, with one method per task.

    A model of a bundle is named BUNDLE:MODEL, for example "ava-bot:ava-intent". Parameters that you do not give take
    the model's own defaults. If a request fails, every method raises a subclass of `ClientError` from `marina.errors`.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @classmethod
    def http(
        cls,
        url: str,
        token: Token = None,
        timeout_s: float = 60,
        *,
        certificates: str | Path | None = None,
        retry: bool = True,
    ) -> Client:
        """Create a client that uses HTTP and keeps its connections open.

        Args:
            url: URL of the inference API, for example http://127.0.0.1:8080. Use https:// for TLS.
            token: TorchServe's inference token, or a function that returns a valid one. The function is called for
                each request. If the server refuses its token, the function is called once more, and if it returns a
                different token, the request is sent again with that one.
            timeout_s: Seconds to wait for an answer, with all retries.
            certificates: PEM file of the certificate authorities to trust for https://. Default: the public
                authorities that come with the package requests.
            retry: Whether to send a request again if there is no answer within a quarter of `timeout_s`, or the server
                is overloaded, unreachable, or loses a worker.

        Returns:
            The client.

        Raises:
            MarinaError: The certificate file cannot be used, or `certificates` is given for a URL without TLS.
        """
        return cls(HttpTransport(url, token, timeout_s, certificates, retry))

    @classmethod
    def grpc(
        cls,
        address: str,
        token: Token = None,
        timeout_s: float = 60,
        *,
        tls: bool = False,
        certificates: str | Path | None = None,
        retry: bool = True,
    ) -> Client:
        """Create a client that uses gRPC; this needs the packages grpcio and protobuf.

        Args:
            address: Host and port of the gRPC inference API, for example 127.0.0.1:7070.
            token: TorchServe's inference token, or a function that returns a valid one, as in `http`.
            timeout_s: Seconds to wait for an answer, with all retries.
            tls: Whether to use TLS and trust the public authorities that come with the package grpcio.
            certificates: PEM file of the certificate authorities to trust instead. It implies TLS.
            retry: Whether to send a request again, as in `http`.

        Returns:
            The client.

        Raises:
            MarinaError: The certificate file cannot be used.
        """
        return cls(GrpcTransport(address, token, timeout_s, tls, certificates, retry))

    def predict(self, model: str, inputs: Json, /, **parameters: Json) -> Json:
        """Send inputs of any task and return the model's answer.

        Args:
            model: Name of the model.
            inputs: The inputs, in any form that docs/reference/requests.md allows.
            **parameters: Request parameters of the task.

        Returns:
            The answer, decoded from JSON.
        """
        archive, _, member = model.partition(":")
        return self._send(archive, document_of(inputs, member, parameters))

    def tokenize(
        self, model: str, texts: Sequence[Json], *, add_special_tokens: bool = True, **parameters: Json
    ) -> list[list[dict[str, Json]]]:
        """The tokens that a model would read of each text, without running it.

        Args:
            model: Name of the model.
            texts: The texts, or objects with the task's fields.
            add_special_tokens: Whether to add tokens such as [CLS].
            **parameters: Request parameters of the task, such as `prompt_name`.

        Returns:
            For each text its tokens, each with `id`, `text`, `special`, `start` and `stop`.
        """
        archive, _, member = model.partition(":")
        document: dict[str, Json] = {"model": member} if member else {}
        document |= {"tokenize": list_of(texts, "tokenize(model, [text])"), "add_special_tokens": add_special_tokens}
        answers = self._send(archive, {**document, "parameters": parameters})
        return cast("list[list[dict[str, Json]]]", answers)

    def predict_with(
        self, bundle: str, models: Sequence[str], inputs: Json, /, parameters: Mapping[str, Mapping[str, Json]] = {}
    ) -> dict[str, Json]:
        """Send the same inputs to several models of a bundle.

        Args:
            bundle: Name of the bundle.
            models: Names of its models.
            inputs: The inputs, which all the models take.
            parameters: Request parameters by model.

        Returns:
            The answer of each model by its name. If a model could not answer, its answer is an object with `error`
            and `code`; if none could, an exception is raised.
        """
        document = {"models": list(models), "inputs": inputs}
        if parameters:
            document["parameters"] = {name: dict(model_parameters) for name, model_parameters in parameters.items()}
        return cast("dict[str, Json]", self._send(bundle, document))

    def stream(
        self,
        model: str,
        instances: Iterable[tuple[Json, Json]],
        /,
        *,
        limits: Limits = DEFAULT_LIMITS,
        at_once: int = PARALLEL_REQUESTS,
        patience_s: float = PATIENCE_S,
        **parameters: Json,
    ) -> Iterator[Streamed]:
        """Answer any number of instances, in as many requests as they need.

        Requests become as large as the path to the server allows: the client learns from each how many bytes and
        seconds an instance costs. One that is too large is split. An instance that is refused stops no other.

        Args:
            model: Name of the model.
            instances: Pairs of a key, which is yours, and an instance: a text, or an object with the task's fields.
                They are read as they are needed.
            limits: What the path to the server allows.
            at_once: Number of requests on their way at the same time.
            patience_s: Seconds for which a request is sent again while the server is overloaded or out of reach.
            **parameters: Request parameters of the task.

        Yields:
            What became of each instance, with its key, in order.

        Raises:
            ClientError: The server cannot be reached, does not know the model, or fails.

        Example:
            for key, answer, error, truncated in client.stream("resume-search", enumerate(texts)):
                ...
        """
        archive, _, member = model.partition(":")
        lines = (line_of(key, instance, member, parameters) for key, instance in instances)
        return stream(self._sender(archive, limits, patience_s), lines, at_once)

    def stream_async(
        self,
        model: str,
        instances: AsyncIterable[tuple[Json, Json]],
        /,
        *,
        limits: Limits = DEFAULT_LIMITS,
        at_once: int = PARALLEL_REQUESTS,
        patience_s: float = PATIENCE_S,
        **parameters: Json,
    ) -> AsyncIterator[Streamed]:
        """The same as `stream`, for a program with an event loop.

        Args:
            model: Name of the model.
            instances: Pairs of a key and an instance.
            limits: What the path to the server allows.
            at_once: Number of requests on their way at the same time.
            patience_s: Seconds for which a request is sent again while the server is overloaded or out of reach.
            **parameters: Request parameters of the task.

        Yields:
            What became of each instance, with its key, in order.

        Raises:
            ClientError: The server cannot be reached, does not know the model, or fails.
        """
        archive, _, member = model.partition(":")

        async def lines() -> AsyncIterator[RequestLine]:
            async for key, instance in instances:
                yield line_of(key, instance, member, parameters)

        return stream_async(self._sender(archive, limits, patience_s), lines(), at_once)

    def _send(self, archive: str, document: Json) -> Json:
        return self._transport.predict(archive, document)

    def _sender(self, archive: str, limits: Limits, patience_s: float) -> Sender:
        return Sender(partial(self._transport.send_lines, archive), limits, patience_s)

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
