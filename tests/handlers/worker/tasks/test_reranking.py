"""Rerankers are answered as by sentence-transformers' CrossEncoder, from its own folder to a reply."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import CrossEncoder
from torch import nn

from handlers.worker.answering.model import Model
from marina.compiler import compile_model
from marina.errors import SourceError
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import WORDS, no_progress, save_tiny_model, write_spec
from tests.models import open_folder, reply

QUERY = " ".join(WORDS[:3])
DOCUMENTS = ["", "ok", *WORDS[:6], " ".join(WORDS), " ".join(WORDS * 6), "👍🏽 çà"]


@pytest.fixture(scope="module", params=["Identity", "Sigmoid"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model as the library writes it, with each of its usual activations."""
    path = tmp_path_factory.mktemp(request.param)
    save_tiny_model(path / "trained", "reranking", seed=3)
    trained = CrossEncoder(
        str(path / "trained"), device="cpu", local_files_only=True, activation_fn=getattr(nn, request.param)()
    )
    trained.save_pretrained(str(path / "saved"))
    return path / "saved"


@pytest.fixture(scope="module")
def library(folder: Path) -> CrossEncoder:
    return CrossEncoder(str(folder), device="cpu", local_files_only=True)


@pytest.fixture(scope="module")
def model(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Model:
    return open_folder(folder, tmp_path_factory.mktemp("project"), "reranking")


def test_scores_are_those_of_predict(model: Model, library: CrossEncoder) -> None:
    pairs = [{"query": QUERY, "document": text} for text in DOCUMENTS]
    expected = library.predict([(QUERY, text) for text in DOCUMENTS])
    np.testing.assert_allclose(reply(model, {"inputs": pairs}), expected, atol=1e-4)
    raw = library.predict([(QUERY, text) for text in DOCUMENTS], activation_fn=nn.Identity())
    none = {"function_to_apply": "none"}
    np.testing.assert_allclose(reply(model, {"inputs": pairs, "parameters": none}), raw, atol=1e-4)
    assert reply(model, pairs[1]) == pytest.approx(expected[1], abs=1e-4)


def test_documents_come_in_the_order_of_rank(model: Model, library: CrossEncoder) -> None:
    ranked = library.rank(QUERY, DOCUMENTS, activation_fn=nn.Sigmoid())
    tei = reply(model, {"query": QUERY, "texts": DOCUMENTS, "return_text": True})
    assert [entry["index"] for entry in tei] == [entry["corpus_id"] for entry in ranked]
    assert [entry["text"] for entry in tei] == [DOCUMENTS[entry["corpus_id"]] for entry in ranked]
    np.testing.assert_allclose([entry["score"] for entry in tei], [entry["score"] for entry in ranked], atol=1e-4)
    cohere = reply(model, {"model": "any", "query": QUERY, "documents": DOCUMENTS, "top_n": 3})
    assert [entry["index"] for entry in cohere["results"]] == [entry["index"] for entry in tei[:3]]
    assert cohere["results"][0]["relevance_score"] == tei[0]["score"]
    raw = reply(model, {"query": QUERY, "texts": DOCUMENTS[:2], "raw_scores": True})
    expected = library.predict([(QUERY, text) for text in DOCUMENTS[:2]], activation_fn=nn.Identity())
    np.testing.assert_allclose(sorted(entry["score"] for entry in raw), sorted(expected), atol=1e-4)


def test_a_model_with_several_labels_is_no_reranker(project: Project) -> None:
    save_tiny_model(project.root / "weights", "text-classification", num_labels=3)
    source = {"path": "weights"}
    spec = read_spec(write_spec(project, "m", task="reranking", source=source, shapes={"exact": ["1x16"]}))
    with pytest.raises(SourceError, match=r"has 3 labels, .* needs a single value; use the task text-classification"):
        compile_model(spec, project, no_progress)
