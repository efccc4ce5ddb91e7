"""A client for served models, over HTTP or gRPC.

from marina.client import Client
client = Client.http("http://127.0.0.1:8080", token="...")
client.classify("ava-intent", ["change company address"], top_k=1)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict, cast

from marina.client.tokens import Token
from marina.client.transport import GrpcTransport, HttpTransport, Transport

__all__ = ["Answer", "Client", "Entity", "LabelScore", "Text"]

Json = Any
Text = str | tuple[str, str]
"""A text, or a pair of texts."""


class LabelScore(TypedDict):
    """A label and its score."""

    label: str
    score: float


class Entity(TypedDict, total=False):
    """A labelled span of a text; `entity` and `index` stand for `entity_group` where tokens are not joined."""

    entity_group: str
    entity: str
    index: int
    score: float
    word: str
    start: int
    end: int


class Answer(TypedDict):
    """A span of a context that answers a question; an empty one says that there is no answer."""

    answer: str
    score: float
    start: int
    end: int


class Client:
    """Asks models of one server; one method a task. A parameter that is not given is the model's own default.

    Every method raises the errors under `ClientError` in `marina.errors`.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @classmethod
    def http(
        cls, url: str, token: Token = None, timeout_s: float = 60, *, certificates: str | Path | None = None
    ) -> Client:
        """A client over HTTP, which keeps connections open.

        Args:
            url: of the inference API, for example http://127.0.0.1:8080; https:// asks for TLS.
            token: TorchServe's inference token, or a function that gives a valid one. The function is called for each
                request, and once more where the server refuses its token; if it then gives another, the request is
                sent again with that.
            timeout_s: seconds to wait for an answer.
            certificates: a PEM file of the authorities to trust for https://; by default the public ones that come
                with the package requests.

        Raises:
            MarinaError: the file of certificates cannot be used, or the URL asks for no TLS.
        """
        return cls(HttpTransport(url, token, timeout_s, certificates))

    @classmethod
    def grpc(
        cls,
        address: str,
        token: Token = None,
        timeout_s: float = 60,
        *,
        tls: bool = False,
        certificates: str | Path | None = None,
    ) -> Client:
        """A client over gRPC; needs the packages grpcio and protobuf.

        Args:
            address: host and port, for example 127.0.0.1:7070.
            token, timeout_s: as for `http`.
            tls: whether to connect with TLS, and trust the public authorities that come with the package grpcio.
            certificates: a PEM file of the authorities to trust instead; it asks for TLS by itself.

        Raises:
            MarinaError: the file of certificates cannot be used.
        """
        return cls(GrpcTransport(address, token, timeout_s, tls, certificates))

    def embed(self, model: str, texts: Sequence[str], **parameters: Json) -> list[list[float]]:
        """The embedding of each text.

        Args:
            parameters: prompt_name, with None for no prompt at all, normalize, truncate, truncation_direction.
        """
        return cast("list[list[float]]", self.predict(model, list(texts), **parameters))

    def classify(
        self, model: str, texts: Sequence[Text], *, top_k: int | None = None, function_to_apply: str | None = None
    ) -> list[list[LabelScore]]:
        """The labels of each text or pair, the best first."""
        answers = self.predict(model, _texts(texts), **_given(top_k=top_k, function_to_apply=function_to_apply))
        return cast("list[list[LabelScore]]", answers)

    def classify_heads(
        self, model: str, texts: Sequence[Text], *, top_k: int | None = None
    ) -> list[dict[str, list[LabelScore]]]:
        """For a model with several heads: the labels of each head, by its name."""
        return cast("list[dict[str, list[LabelScore]]]", self.predict(model, _texts(texts), **_given(top_k=top_k)))

    def classify_tokens(
        self, model: str, texts: Sequence[str], *, aggregation_strategy: str | None = None, stride: int | None = None
    ) -> list[list[Entity]]:
        """The entities of each text."""
        given = _given(aggregation_strategy=aggregation_strategy, stride=stride)
        return cast("list[list[Entity]]", self.predict(model, list(texts), **given))

    def answer(
        self, model: str, question: str, context: str, *, top_k: int | None = None, **parameters: Json
    ) -> list[Answer]:
        """The spans of the context that answer the question, the best first.

        Args:
            parameters: handle_impossible_answer, max_answer_len, doc_stride, max_seq_len,
                align_to_words.
        """
        inputs = {"question": question, "context": context}
        found = self.predict(model, inputs, **_given(top_k=top_k), **parameters)
        return cast("list[Answer]", found if isinstance(found, list) else [found])

    def predict(self, model: str, inputs: Json, /, **parameters: Json) -> Json:
        """The answer to any inputs that docs/requests.md allows."""
        document = {"inputs": inputs, "parameters": parameters} if parameters else {"inputs": inputs}
        return self._transport.predict(model, document)

    def close(self) -> None:
        """Close connections."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _given(**parameters: Json) -> dict[str, Json]:
    return {name: value for name, value in parameters.items() if value is not None}


def _texts(texts: Sequence[Text]) -> list[Json]:
    return [text if isinstance(text, str) else {"text": text[0], "text_pair": text[1]} for text in texts]
