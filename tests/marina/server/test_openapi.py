"""What the OpenAPI document says of bundles; tests/end_to_end has requests to the models of every task."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from marina.server.openapi import openapi

RANKING = {"query": "q", "texts": ["a", "b"]}


@pytest.mark.parametrize(
    ("body", "valid"),
    [
        ({"model": "search", "inputs": "a"}, True),
        ({"models": ["search", "intent"], "inputs": "a"}, True),
        ({"model": "rerank", **RANKING}, True),
        ({**RANKING, "candidates": 5}, True),
        ({"model": "rerank", "models": ["search"], "inputs": "a"}, False),
        ({**RANKING, "candidates": 0}, False),
        ({"inputs": "a"}, False),
    ],
)
def test_a_bundle_takes_requests_to_models_or_to_its_chain(body: dict[str, Any], valid: bool) -> None:
    schema = openapi()["components"]["schemas"]["BundleRequest"]
    assert jsonschema.Draft202012Validator(schema).is_valid(body) == valid
