"""Sparse embeddings are those of sentence-transformers' SparseEncoder, from its own folder to a reply."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sentence_transformers import SparseEncoder
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sparse_encoder.modules import SparseAutoEncoder

from handlers.worker.answering.model import Model
from handlers.worker.tasks import TASKS
from marina.compiler import compile_model
from marina.errors import NotPackable, SourceError
from marina.project import Project
from marina.spec import Spec, read_spec
from tests.conftest import WORDS, no_progress, save_tiny_model, write_spec
from tests.embedders import save_sparse_encoder
from tests.models import open_folder, reply
from tests.settings import make_settings

VOCABULARY = 200
TEXTS = ["ok", *WORDS[:6], " ".join(WORDS[:9]), " ".join(WORDS), " ".join(WORDS * 6), "👍🏽 çà"]
PROMPTS = {"query": "change the "}
# the pooling, its options, and those of the model
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "max": ({}, {}),
    "sum": ({"pooling_strategy": "sum"}, {"prompts": PROMPTS}),
    "twice": (
        {"activation_function": "log1p_relu"},
        {"max_active_dims": 7, "prompts": PROMPTS, "default_prompt_name": "query"},
    ),
}


@pytest.fixture(scope="module", params=list(KINDS))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pooling, options = KINDS[request.param]
    return save_sparse_encoder(tmp_path_factory.mktemp(request.param) / "saved", pooling, **options)


@pytest.fixture(scope="module")
def library(folder: Path) -> SparseEncoder:
    return SparseEncoder(str(folder), device="cpu", local_files_only=True)


@pytest.fixture(scope="module")
def model(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Model:
    return open_folder(folder, tmp_path_factory.mktemp("project"), "sparse-embedding")


def dense(answer: list[dict[str, Any]]) -> npt.NDArray[np.float64]:
    vector = np.zeros(VOCABULARY)
    vector[[entry["index"] for entry in answer]] = [entry["value"] for entry in answer]
    return vector


def test_weights_are_those_of_encode(model: Model, library: SparseEncoder) -> None:
    expected = library.encode(TEXTS, convert_to_sparse_tensor=False).numpy()
    answers = reply(model, {"inputs": TEXTS})
    np.testing.assert_allclose([dense(answer) for answer in answers], expected, atol=1e-4)
    indices = [entry["index"] for entry in answers[0]]
    assert indices == sorted(indices)
    assert all(entry["value"] for entry in answers[0])
    for name in library.prompts:
        named = library.encode(TEXTS, prompt_name=name, convert_to_sparse_tensor=False).numpy()
        answers = reply(model, {"inputs": TEXTS, "prompt_name": name})
        np.testing.assert_allclose([dense(answer) for answer in answers], named, atol=1e-4)


def test_the_largest_weights_are_kept(model: Model, library: SparseEncoder) -> None:
    expected = library.encode(TEXTS, max_active_dims=5, convert_to_sparse_tensor=False)
    answers = reply(model, {"inputs": TEXTS, "parameters": {"max_active_dims": 5}})
    np.testing.assert_allclose([dense(answer) for answer in answers], expected.numpy(), atol=1e-4)
    assert {len(answer) for answer in answers} == {5}


def test_tokens_are_those_of_decode(model: Model, library: SparseEncoder) -> None:
    expected = library.decode(library.encode(TEXTS), top_k=6)
    answers = reply(model, {"inputs": TEXTS, "parameters": {"format": "tokens", "max_active_dims": 6}})
    for answer, pairs in zip(answers, expected, strict=True):
        assert [entry["token"] for entry in answer] == [token for token, _ in pairs]
        np.testing.assert_allclose([entry["value"] for entry in answer], [value for _, value in pairs], atol=1e-4)


def test_the_text_for_pgvector_has_the_same_weights(model: Model) -> None:
    pairs = reply(model, {"inputs": TEXTS[0]})
    text = reply(model, {"inputs": TEXTS[0], "parameters": {"format": "sparsevec"}})
    weights, _, size = text.rpartition("/")
    entries = [entry.split(":") for entry in weights.strip("{}").split(",")]
    assert size == str(VOCABULARY)
    assert [int(place) - 1 for place, _ in entries] == [entry["index"] for entry in pairs]
    np.testing.assert_allclose([float(value) for _, value in entries], [entry["value"] for entry in pairs], rtol=1e-6)


def test_a_masked_language_model_is_read_as_the_library_does(project: Project) -> None:
    save_tiny_model(project.root / "weights", "sparse-embedding", seed=5)
    spec = read_spec(write_spec(project, "m", **SPARSE))
    model = Model(compile_model(spec, project, no_progress).folder, make_settings(), TASKS)
    library = SparseEncoder(str(project.root / "weights"), device="cpu", local_files_only=True)
    expected = library.encode(TEXTS[:4], convert_to_sparse_tensor=False).numpy()
    np.testing.assert_allclose([dense(answer) for answer in reply(model, {"inputs": TEXTS[:4]})], expected, atol=1e-4)
    assert reply(model, {"inputs": "ok", "format": "dense"}, 400)["error"].startswith('the parameter "format" must be')


SPARSE = {"task": "sparse-embedding", "source": {"path": "weights"}, "shapes": {"exact": ["1x16", "4x64"]}}


def compile_weights(project: Project, **fields: Any) -> Spec:
    spec = read_spec(write_spec(project, "m", **{**SPARSE, **fields}))
    compile_model(spec, project, no_progress)
    return spec


def test_a_row_belongs_to_one_text(project: Project) -> None:
    save_tiny_model(project.root / "weights", "sparse-embedding")
    with pytest.raises(
        NotPackable,
        match=r"m: its rows cannot be packed: pooling over the vocabulary needs every text in a row of its own",
    ):
        compile_weights(project, shapes={"exact": ["2x64p"]})


def autoencoder(folder: Path) -> None:
    from sentence_transformers.sentence_transformer.modules import Pooling

    encoder = Transformer(str(save_tiny_model(folder.with_name("trained"), "sentence-embedding")))
    modules = [encoder, Pooling(32, "mean"), SparseAutoEncoder(32, 64, k=4)]
    SparseEncoder(modules=modules, device="cpu").save_pretrained(str(folder), create_model_card=False)


def classifier(folder: Path) -> None:
    save_tiny_model(folder, "text-classification")


def encoder_alone(folder: Path) -> None:
    save_tiny_model(folder, "sentence-embedding")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (autoencoder, r"module 1 of .*Pooling, cannot be compiled; .* a Transformer, and after it SpladePooling"),
        (classifier, r"is no masked language model: .* are BertForSequenceClassification, and .* a ...ForMaskedLM"),
        (encoder_alone, r"is no masked language model: .* are BertModel, and .* needs a ...ForMaskedLM"),
    ],
)
def test_other_models_are_refused_by_name(project: Project, make: Callable[[Path], None], reason: str) -> None:
    make(project.root / "weights")
    with pytest.raises(SourceError, match=reason):
        compile_weights(project)
