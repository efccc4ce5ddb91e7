"""A query with documents, answered in the order of their scores.

    {"query": ..., "texts": [...]}        like /rerank of text-embeddings-inference: [{"index": 1, "score": 0.98}, ...]
    {"query": ..., "documents": [...]}    like /rerank of Cohere, Jina and vLLM:
                                          {"model": ..., "results": [{"index": 1, "relevance_score": 0.98}, ...], ...}

Scores of rerankers are between 0 and 1, as in those services; "raw_scores": true gives the model's own outputs. Scores
of multi-vector embeddings are their similarity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from handlers.worker.errors import RequestError
from handlers.worker.request.body import Body
from handlers.worker.request.instances import Answered, Request, RequestLimits, check_count, read_instance
from handlers.worker.request.parameters import as_integer, check_fields, read_parameters
from handlers.worker.request.schema import Schema
from handlers.worker.request.text import type_name
from handlers.worker.values import Json

NAME = "rerank"
# the URL selects the model; texts are cut as the spec says
IGNORED = {"model", "truncate", "truncation_direction"}
FIELDS = {
    "texts": {"query", "texts", "top_n", "return_text", "raw_scores", *IGNORED},
    "documents": {"query", "documents", "top_n", "return_documents", "raw_scores", *IGNORED},
}
RETURN_FLAG = {"texts": "return_text", "documents": "return_documents"}  # whether an answer repeats the texts
SCORE = {"texts": "score", "documents": "relevance_score"}


def recognises(value: Json, schema: Schema) -> bool:
    """Whether a JSON body has a query and a list of documents."""
    return schema.ranks and isinstance(value, dict) and "query" in value and bool(set(FIELDS) & set(value))


def read(body: Body, schema: Schema, limits: RequestLimits, defaults: Mapping[str, Json]) -> Request:
    """Read the query with each of the documents."""
    value = body.value
    form = "texts" if "texts" in value else "documents"
    check_fields(value, FIELDS[form])
    documents = value[form]
    if not isinstance(documents, list):
        raise RequestError("InvalidBody", f'"{form}" must be a list of texts, not {type_name(documents)}')
    check_count(len(documents), form, limits)
    for flag in (RETURN_FLAG[form], "raw_scores"):
        if not isinstance(value.get(flag, False), bool):
            raise RequestError("InvalidBody", f'"{flag}" must be true or false')
    top_n = as_integer(value.get("top_n"))
    if top_n is not None and (not isinstance(top_n, int) or isinstance(top_n, bool) or top_n < 1):
        raise RequestError("InvalidBody", '"top_n" must be a whole number from 1 on')
    first, second = schema.fields.pair_names or (schema.fields.first, schema.fields.second)
    fields = schema.fields._replace(first=first, second=second, second_required=True, empty=True)
    instances = []
    for number, document in enumerate(documents):
        text = document.get("text") if isinstance(document, dict) and set(document) == {"text"} else document
        instances.append(read_instance({first: value["query"], second: text}, f"{form}[{number}]", fields, limits))
    function = {"function_to_apply": "none" if value.get("raw_scores") else "sigmoid"}
    parameters = read_parameters(
        function if "function_to_apply" in schema.parameters else {}, schema.parameters, defaults
    )
    returned_texts = [instance.text_pair for instance in instances] if value.get(RETURN_FLAG[form]) else None
    details = {"place": f"{form}[{{}}]: ", "form": form, "top_n": top_n, "returned_texts": returned_texts}
    return Request(tuple(instances), parameters, NAME, details)


def write(request: Request, answers: Sequence[Answered], identity: Mapping[str, str]) -> Json:
    """The documents with the highest scores, best first; equal scores in the order of the request."""
    form, returned_texts, top_n = (request.details[name] for name in ("form", "returned_texts", "top_n"))
    best = sorted(range(len(answers)), key=lambda place: -answers[place].answer)[:top_n]
    results = []
    for place in best:
        number = request.number(place)
        result = {"index": number, SCORE[form]: answers[place].answer}
        if returned_texts:
            text = {"text": returned_texts[number]}
            result |= text if form == "texts" else {"document": text}
        results.append(result)
    if form == "texts":
        return results
    tokens = sum(answered.tokens for answered in answers) + request.details.get("tokens", 0)
    return {"model": identity["name"], "results": results, "usage": {"total_tokens": tokens}}
