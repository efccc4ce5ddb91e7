"""`marina predict`."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marina.cli.options import JsonOption, parameter_of
from marina.console import print_answer, print_json, say
from marina.errors import MarinaError, ServerError, UnknownModelError, UnreachableError
from marina.project import find_project

if TYPE_CHECKING:
    from marina.client import RankedDocument


def predict(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Model; BUNDLE:MODEL for one of a bundle.")],
    texts: Annotated[list[str], typer.Argument(metavar="TEXT", help="One or more texts; with --context, questions.")],
    pair: Annotated[str | None, typer.Option(help="A second text, for models that compare two.")] = None,
    context: Annotated[
        str | None, typer.Option(help="The text that contains the answers, for question answering.")
    ] = None,
    documents: Annotated[
        list[str] | None,
        typer.Option("--document", help="A document that may answer the text, for reranking. Repeat for more."),
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(min=1, help="Of a bundle with a chain: how many of the documents each model passes on."),
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option("--label", help="A label to choose from, for zero-shot classification. Repeat for more."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter, for example top_k=3. Repeat for more."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Send texts to a model of the running server, and print the answers.

    With --json, the answer is printed exactly as the server sent it.
    """
    from marina.client import Client
    from marina.client.types import ranked
    from marina.server.models import require_running
    from marina.server.run.tokens import token as valid_token

    project = find_project()
    state = require_running(project)
    ports = state.ports
    inputs = _inputs_of(texts, pair, context, documents, candidates)
    parameters = dict(parameter_of(setting) for setting in settings or [])
    if labels:
        parameters["candidate_labels"] = labels
    url = f"http://127.0.0.1:{ports.inference}"

    def current_token() -> str:
        try:
            return valid_token(project.run, "inference", ports.management)
        except ServerError as error:  # the server is being started again
            raise UnreachableError(str(error), transient=True) from None

    with Client.http(url, current_token) as client:
        try:
            if documents and candidates:
                if set(parameters) - {"top_n"}:
                    raise MarinaError("--candidates is for a chain, which has one more parameter", "--set top_n=3")
                chosen = [client.rerank(name, text, documents, candidates=candidates, **parameters) for text in texts]
                _print_ranked(texts, documents, chosen, as_json)
                return
            results = list(client.stream(name, enumerate(inputs), **parameters))
        except UnknownModelError as error:
            raise UnknownModelError(f"{error}; {_names_hint(name, list(state.models))}") from None
    for number, result in enumerate(results, 1):
        if result.error:
            raise MarinaError(f"input {number} of {len(inputs)}: {result.error}") if inputs[1:] else result.error
    answers: list[Any] = [result.answer for result in results]
    if as_json:
        print_json(answers if len(inputs) > 1 else answers[0])
        return
    if documents:
        per_query = [answers[start : start + len(documents)] for start in range(0, len(answers), len(documents))]
        _print_ranked(texts, documents, list(map(ranked, per_query)))
        return
    for text, result in zip(texts, results, strict=True):
        if len(texts) > 1:
            say(text)
        print_answer(result.answer)
        if result.truncated:
            say("this text is longer than the model reads, and was cut; the shapes in the spec set the limit")


def _inputs_of(
    texts: list[str], pair: str | None, context: str | None, documents: list[str] | None, candidates: int | None
) -> list[Any]:
    """The instances: texts, or each with what is given beside them."""
    if candidates and not documents:
        raise MarinaError("--candidates chooses among documents", "give them with --document")
    if sum(option is not None for option in (pair, context, documents)) > 1:
        raise MarinaError(
            "--pair is for models that compare two texts, --context for those that answer, --document for those that "
            "rank; give one"
        )
    if pair is not None:
        return [{"text": text, "text_pair": pair} for text in texts]
    if context is not None:
        return [{"question": text, "context": context} for text in texts]
    if documents:
        return [{"query": text, "document": document} for text in texts for document in documents]
    return list(texts)


def _names_hint(name: str, served: list[str]) -> str:
    """The name that the user probably meant, or all names."""
    similar = get_close_matches(name.partition(":")[0], served, n=1)
    return f"did you mean {similar[0]}?" if similar else f"the server has {', '.join(sorted(served)) or 'no model'}"


def _print_ranked(
    queries: list[str], documents: list[str], ranked: list[list[RankedDocument]], as_json: bool = False
) -> None:
    """Print the documents for each query, best first."""
    if as_json:
        print_json(ranked if len(queries) > 1 else ranked[0])
        return
    for query, entries in zip(queries, ranked, strict=True):
        if len(queries) > 1:
            say(query)
        print_answer([{"document": documents[entry["index"]], "score": entry["score"]} for entry in entries])
