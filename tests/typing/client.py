"""A client, method by method."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typing_extensions import assert_type

import marina
from marina.client import Answer, Client, Entity, LabelScore, Limits, RankedDocument, Streamed
from marina.errors import ClientError, MarinaError, RefusedError


def read_token() -> str:
    return "secret"


def connect() -> None:
    assert_type(Client.http("http://127.0.0.1:8080", "secret"), Client)
    assert_type(marina.Client.http("https://host", read_token, 10, certificates="ca.pem", retry=False), Client)
    assert_type(Client.grpc("127.0.0.1:7070", tls=True), Client)
    Client.http("http://127.0.0.1:8080", token=5)  # type: ignore[arg-type]
    Client.http("http://127.0.0.1:8080", None, 60, "ca.pem")  # type: ignore[call-arg]
    with Client.http("http://127.0.0.1:8080") as client:
        assert_type(client, Client)


def methods(client: Client) -> None:
    assert_type(client.embed("m", ["a", "b"], prompt_name="query"), list[list[float]])
    assert_type(client.classify("m", ["a", ("b", "c")], top_k=1), list[list[LabelScore]])
    assert_type(client.classify_heads("m", ["a"]), list[dict[str, list[LabelScore]]])
    assert_type(client.classify_tokens("m", ["a"], aggregation_strategy="simple", stride=16), list[list[Entity]])
    assert_type(client.answer("m", "who?", "she", top_k=2, max_answer_len=5), list[Answer])
    assert_type(client.rerank("m", "who?", ["she", "he"], top_n=1), list[RankedDocument])
    assert_type(client.predict("m", {"anything": 1}, any_parameter=2), Any)
    assert_type(client.predict_with("b", ["m", "n"], ["a"], {"m": {"top_k": 1}}), dict[str, Any])
    assert_type(client.classify("m", ["a"])[0][0]["score"], float)
    client.classify("m", [1])  # type: ignore[list-item]
    client.classify("m", ["a"], top_k="1")  # type: ignore[arg-type]
    client.classify("m", ["a"])[0][0]["name"]  # type: ignore[typeddict-item]


def many(client: Client, texts: Iterator[tuple[int, str]]) -> None:
    for streamed in client.stream("m", texts, limits=Limits.SAGEMAKER, at_once=2, top_k=1):
        assert_type(streamed, Streamed)
        assert_type(streamed.error, ClientError | None)
        assert_type(streamed.truncated, bool)


def failures(client: Client) -> str:
    try:
        return str(client.predict("m", "a"))
    except RefusedError as error:
        caught: MarinaError = error
        return str(caught)
