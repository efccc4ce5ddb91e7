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
from marina.client.tokens import Token
from marina.client.transport import GrpcTransport, HttpTransport, Transport
from marina.client.types import (
    Answer,
    Entity,
    LabelScore,
    RankedDocument,
    Text,
    expect,
    is_embedding,
    is_entities,
    is_heads,
    is_packed_matrix,
    is_ranked,
    is_ranking,
    is_sparse,
    list_of,
    pairs_as_objects,
    ranked,
    unpack_matrix,
)
from marina.errors import ClientError

__all__ = ["Answer", "Client", "Entity", "LabelScore", "Limits", "RankedDocument", "Streamed", "Text"]

Json = Any
DEFAULT_LIMITS = Limits(6_000_000, 6_000_000, 60)
PARALLEL_REQUESTS = 4  # of a stream
PATIENCE_S = 60.0


class Client:
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

    def embed(self, model: str, texts: Sequence[str], **parameters: Json) -> list[list[float]]:
        """Compute the embedding of each text (task sentence-embedding).

        Args:
            model: Name of the model.
            texts: The texts.
            **parameters: `prompt_name` (None for no prompt at all), `normalize`, `truncate`,
                `truncation_direction`, `dimensions`, and `precision` ("int8" or "uint8"; "binary" or "ubinary": eight
                values in a byte).

        Returns:
            One embedding per text, in order; with `precision`, lists of whole numbers.

        Raises:
            ClientError: There is no answer, or the model has another task.
        """
        answers = self.predict(model, list_of(texts, "embed(model, [text])"), **parameters)
        return cast("list[list[float]]", expect(answers, is_embedding, "embed", model))

    def embed_sparse(self, model: str, texts: Sequence[str], **parameters: Json) -> list[dict[int, float]]:
        """Compute the sparse embedding of each text (task sparse-embedding).

        Args:
            model: Name of the model.
            texts: The texts.
            **parameters: `max_active_dims`, `prompt_name`, `truncate` and `truncation_direction`.

        Returns:
            For each text, its weights that are not 0, by their index in the vocabulary.

        Raises:
            ClientError: There is no answer, or the model has another task.
        """
        inputs = list_of(texts, "embed_sparse(model, [text])")
        answers = self.predict(model, inputs, **parameters, format="indices")
        answers = expect(answers, is_sparse, "embed_sparse", model)
        return [{entry["index"]: entry["value"] for entry in answer} for answer in answers]

    def embed_multi_vector(
        self,
        model: str,
        texts: Sequence[str],
        *,
        is_query: bool = False,
        precision: str = "float32",
        **parameters: Json,
    ) -> list[list[list[float]]]:
        """Compute the vectors of the tokens of each text (task multi-vector-embedding).

        Args:
            model: Name of the model.
            texts: The texts.
            is_query: Whether they are queries, and not documents.
            precision: Of the vectors on their way: "float32", "float16" or "int8", which is 127 times a value.
            **parameters: `truncate` and `truncation_direction`.

        Returns:
            For each text, a vector for each of its tokens.

        Raises:
            ClientError: There is no answer, or the model has another task.
        """
        inputs = list_of(texts, "embed_multi_vector(model, [text])")
        parameters |= {"is_query": is_query, "precision": precision, "encoding": "base64"}  # which is short
        answers = self.predict(model, inputs, **parameters)
        answers = expect(answers, is_packed_matrix, "embed_multi_vector", model)
        return [unpack_matrix(answer, precision) for answer in answers]

    def classify(
        self, model: str, texts: Sequence[Text], *, top_k: int | None = None, function_to_apply: str | None = None
    ) -> list[list[LabelScore]]:
        """Classify each text or pair of texts (task text-classification).

        Args:
            model: Name of the model.
            texts: The texts, or pairs of texts.
            top_k: Number of labels per text.
            function_to_apply: How logits become scores: "softmax", "sigmoid", "none", or "default" for what the
                model's configuration says.

        Returns:
            For each text, its labels with scores, best first.

        Raises:
            ClientError: There is no answer, or the model has another task.
        """
        inputs = pairs_as_objects(list_of(texts, "classify(model, [text])"))
        answers = self.predict(model, inputs, **_without_none(top_k=top_k, function_to_apply=function_to_apply))
        return cast("list[list[LabelScore]]", expect(answers, is_ranking, "classify", model))

    def classify_heads(
        self, model: str, texts: Sequence[Text], *, top_k: int | None = None
    ) -> list[dict[str, list[LabelScore]]]:
        """Classify each text or pair of texts with a model that has several heads.

        Args:
            model: Name of the model.
            texts: The texts, or pairs of texts.
            top_k: Number of labels per head.

        Returns:
            For each text, the labels with scores of each head, best first, by the name of the head.
        """
        inputs = pairs_as_objects(list_of(texts, "classify_heads(model, [text])"))
        answers = self.predict(model, inputs, **_without_none(top_k=top_k))
        return cast("list[dict[str, list[LabelScore]]]", expect(answers, is_heads, "classify_heads", model))

    def classify_zero_shot(
        self,
        model: str,
        texts: Sequence[str],
        labels: Sequence[str],
        *,
        hypothesis_template: str | None = None,
        multi_label: bool = False,
    ) -> list[list[LabelScore]]:
        """Classify each text by labels of your choice (task zero-shot-classification).

        Args:
            model: Name of the model.
            texts: The texts.
            labels: The labels to choose from.
            hypothesis_template: What the model compares with the text, with {} for the label; by default the spec's.
            multi_label: Whether several labels can be right; otherwise the scores of a text add up to 1.

        Returns:
            For each text, the labels with scores, best first.
        """
        parameters = _without_none(hypothesis_template=hypothesis_template)
        inputs = list_of(texts, "classify_zero_shot(model, [text], labels)")
        answers = self.predict(model, inputs, candidate_labels=list(labels), multi_label=multi_label, **parameters)
        return cast("list[list[LabelScore]]", expect(answers, is_ranking, "classify_zero_shot", model))

    def classify_tokens(
        self, model: str, texts: Sequence[str], *, aggregation_strategy: str | None = None, stride: int | None = None
    ) -> list[list[Entity]]:
        """Find the entities in each text (task token-classification).

        Args:
            model: Name of the model.
            texts: The texts.
            aggregation_strategy: How tokens are joined into entities: "simple", "first", "average" or "max". "none"
                returns every token.
            stride: Number of tokens that two windows share. If set, long texts are read in overlapping windows.

        Returns:
            For each text, its entities.
        """
        parameters = _without_none(aggregation_strategy=aggregation_strategy, stride=stride)
        answers = self.predict(model, list_of(texts, "classify_tokens(model, [text])"), **parameters)
        return cast("list[list[Entity]]", expect(answers, is_entities, "classify_tokens", model))

    def rerank(
        self,
        model: str,
        query: str,
        documents: Sequence[str],
        *,
        top_n: int | None = None,
        function_to_apply: str | None = None,
        candidates: int | None = None,
    ) -> list[RankedDocument]:
        """Sort documents by how well they answer a query (tasks reranking and multi-vector-embedding, and chains).

        Args:
            model: Name of the model.
            query: The query.
            documents: The documents.
            top_n: Number of documents to return. Default: all.
            function_to_apply: How the model's output becomes a score: "sigmoid", "none", or "default" for what
                `CrossEncoder.predict` of sentence-transformers does.
            candidates: Of a bundle with a chain: how many documents each model but the last passes on. Only these are
                returned. Their scores are between 0 and 1 if the last model is a reranker, or with "none" its outputs.

        Returns:
            The documents with the highest scores, best first.
        """
        texts = list_of(documents, "rerank(model, query, [document])")
        if candidates is not None:
            if function_to_apply not in (None, "sigmoid", "none"):
                raise ClientError("candidates: function_to_apply may be sigmoid or none for a chain")
            raw_scores = True if function_to_apply == "none" else None
            body = _without_none(query=query, texts=texts, candidates=candidates, top_n=top_n, raw_scores=raw_scores)
            answers = expect(self._transport.predict(model, body), is_ranked, "rerank", model)
            return cast("list[RankedDocument]", answers)
        pairs = [{"query": query, "document": text} for text in texts]
        scores = self.predict(model, pairs, **_without_none(function_to_apply=function_to_apply))
        scores = expect(scores, lambda score: isinstance(score, float | int), "rerank", model)
        return ranked(scores)[:top_n]

    def answer(
        self, model: str, question: str, context: str, *, top_k: int | None = None, **parameters: Json
    ) -> list[Answer]:
        """Find the answers to a question in a context (task question-answering).

        Args:
            model: Name of the model.
            question: The question.
            context: The text that may contain the answer.
            top_k: Number of answers.
            **parameters: `handle_impossible_answer`, `max_answer_len`, `doc_stride`, `max_seq_len` and
                `align_to_words`.

        Returns:
            The spans of the context that answer the question, best first.
        """
        inputs = {"question": question, "context": context}
        answers = self.predict(model, inputs, **_without_none(top_k=top_k), **parameters)
        return cast("list[Answer]", answers if isinstance(answers, list) else [answers])

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
        return self._transport.predict(archive, document_of(inputs, member, parameters))

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
        answers = self._transport.predict(archive, {**document, "parameters": parameters})
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
        return cast("dict[str, Json]", self._transport.predict(bundle, document))

    def stream(
        self,
        model: str,
        instances: Iterable[tuple[Json, Json]],
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

    def _sender(self, archive: str, limits: Limits, patience_s: float) -> Sender:
        return Sender(partial(self._transport.send_lines, archive), limits, patience_s)

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _without_none(**parameters: Json) -> dict[str, Json]:
    return {name: value for name, value in parameters.items() if value is not None}
