"""A running server against its OpenAPI document, by Schemathesis: requests that fit it, and requests that do not."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from handlers.worker.tasks import TASKS as KNOWN
from marina.server.openapi import camel, openapi
from tests.embedders import PROMPTS, WIDTH
from tests.end_to_end.conftest import TASKS, Server

pytestmark = pytest.mark.long

SECONDS = 100
LABELS = ["LABEL_0", "LABEL_1"]
# their bounds depend on each other and on the model's windows
WINDOWS = {"max_seq_len", "doc_stride"}
# a hypothesis that leaves no room for the text is refused, and no schema knows how long it is in tokens
OF_LABELS = {"candidate_labels", "hypothesis_template"}
# what TorchServe does before a worker sees the request: 400 for a missing token, and any method for POST
TORCHSERVES = "ignored_auth,missing_required_header,unsupported_method"


def document_of(models: dict[str, str]) -> dict[str, Any]:
    """The document for these models: each has its own paths, the schemas of its task, and its own prompts, sizes and
    labels.

    Links send a body on to the model's other URLs, which take the same.
    """
    document = openapi()
    schemas = document["components"]["schemas"]
    bodies = [body for schema in schemas.values() for body in schema.get("anyOf", [])]
    for properties in (schema.get("properties", {}) for schema in [*schemas.values(), *bodies]):
        if "prompt_name" in properties:
            properties["prompt_name"] = {"enum": [*PROMPTS, None]}
        if "dimensions" in properties:
            properties["dimensions"] = {"enum": [WIDTH, None]}
        if "thresholds" in properties:
            properties["thresholds"]["propertyNames"] = {"enum": LABELS}
        for name in (WINDOWS | OF_LABELS) & properties.keys():
            del properties[name]
    paths = document.pop("paths")
    document["paths"] = {}
    for model, task in models.items():
        names = {path: f"{item['post']['operationId']}-{model}" for path, item in paths.items()}
        for path, item in paths.items():
            operation = copy.deepcopy(item["post"])
            del operation["parameters"]
            operation["operationId"] = names[path]
            if KNOWN[task].fields.second_required:
                del operation["requestBody"]["content"]["text/plain"]
            answer = operation["responses"]["200"]
            for content, kind in ((operation["requestBody"]["content"], "Request"), (answer["content"], "Response")):
                content["application/json"]["schema"] = {"$ref": f"#/components/schemas/{camel(task)}{kind}"}
            answer["links"] = {name: {"operationId": name, "requestBody": "$request.body"} for name in names.values()}
            document["paths"][path.replace("{name}", model)] = {"post": operation}
    return document


def test_requests_of_every_kind_are_answered_as_the_document_says(tiny_server: Server, tmp_path: Path) -> None:
    description = tmp_path / "openapi.json"
    description.write_text(json.dumps(document_of(TASKS)))
    command = [str(Path(sys.executable).with_name("st")), "run", str(description), "--url", tiny_server.url]
    options = ["--phases", "examples,coverage,fuzzing,stateful", "--max-time", str(SECONDS), "--seed", "1"]
    if os.environ.get("MARINA_HOST", "torchserve") == "torchserve":
        options += ["--exclude-checks", TORCHSERVES]
    headers = ["--header", f"Authorization: Bearer {tiny_server.token()}"]
    result = subprocess.run(
        [*command, *options, *headers], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert result.returncode == 0, result.stdout[-20000:]
    assert "Stateful" in result.stdout
