"""How far the answers of a server agree with those of the original model in float32."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import requests

from benchmarks.peers.settings import EMBEDDINGS, ENTITIES, INTENTS, Format
from marina.bench.load.profile import Target
from marina.compiler.tasks.agreement import f1

TEXTS, CHARACTERS = 150, 400  # longer texts are cut at different places
TIMEOUT_S = 60
NAMES = {INTENTS: "labels", EMBEDDINGS: "mean cosine", ENTITIES: "F1 of entities"}


def original_answers(task: str, source: Path, texts: Sequence[str]) -> list[Any]:
    """The answers of the original model, with transformers and torch: a label, a vector or a set of entities each."""
    import torch
    from transformers import AutoModel, AutoTokenizer, pipeline

    if task != EMBEDDINGS:
        options = {"aggregation_strategy": "first"} if task == ENTITIES else {}
        pipe = pipeline(task, model=str(source), device="cpu", trust_remote_code=False, **options)
        return [_plain(task, pipe(text)) for text in texts]
    tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    model = AutoModel.from_pretrained(source, trust_remote_code=False).eval()
    with torch.inference_mode():
        outputs = [model(**tokenizer(text, truncation=True, return_tensors="pt")).last_hidden_state for text in texts]
    return [output[0].mean(0).numpy() for output in outputs]


def served_answers(task: str, target: Target, form: Format, bodies: Sequence[bytes]) -> list[Any]:
    """The answers of a server to requests with one text each, in the same form.

    Raises:
        requests.RequestException: a request is not answered.
    """
    headers = {"Content-Type": "application/json"}
    headers |= {"Authorization": f"Bearer {target.token}"} if target.token else {}
    answers = []
    for body in bodies:
        url = f"http://{target.address}{target.paths[0]}"
        response = requests.post(url, body, headers=headers, timeout=TIMEOUT_S)
        response.raise_for_status()
        document = json.loads(response.content)
        if form == "openai":
            (document,) = document["data"]
            document = document["embedding"] if task == EMBEDDINGS else document
        answers.append(_plain(task, document))
    return answers


def agreement(task: str, answers: Sequence[Any], original: Sequence[Any]) -> float:
    """The share of equal labels, the mean cosine of embeddings, or the F1 of entities."""
    pairs = list(zip(answers, original, strict=True))
    if task == EMBEDDINGS:
        return float(np.mean([a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs]))
    if task == ENTITIES:
        return f1(original, answers)
    return float(sum(a == b for a, b in pairs) / len(pairs))


def _plain(task: str, document: Any) -> Any:
    if task == EMBEDDINGS:
        return np.array(document, dtype=np.float32)
    if task == ENTITIES:
        return {(entity["start"], entity["end"], entity["entity_group"]) for entity in document}
    labels = [document] if isinstance(document, dict) else document
    return max(labels, key=lambda label: label.get("score", 1.0))["label"]
