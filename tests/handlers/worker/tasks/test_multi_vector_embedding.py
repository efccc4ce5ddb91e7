"""Multi-vector embeddings are those of sentence-transformers' MultiVectorEncoder, from its own folder to a reply."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentence_transformers

from handlers.worker.answering.model import Model
from handlers.worker.tasks import TASKS
from marina.compiler import compile_model
from marina.errors import CompileError, NotPackable, SourceError
from marina.new import new_spec
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import ENGINE, WORDS, no_progress, save_tiny_model, write_spec
from tests.embedders import edit_json, save_late_interaction
from tests.models import open_folder, reply
from tests.settings import make_settings

MultiVectorEncoder: Any = getattr(sentence_transformers, "MultiVectorEncoder", None)
pytestmark = pytest.mark.skipif(MultiVectorEncoder is None, reason="needs sentence-transformers 6")

TEXTS = ["ok", "change company, address.", " ".join(WORDS[:14]), " ".join(WORDS * 6), "👍🏽 çà"]
QUERIES = ["ok", "reset my password", " ".join(WORDS * 6)]
WIDTH = 8  # of a token's vector
PROMPTS = {"query": "change ", "document": "invoice "}
FIXED = {"strategy": "fixed", "length": 16, "attend": False, "token": "[SEP]"}
# of the encoder, of the mask, and of the model
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}, {}),
    "colbert": (
        {"query_expansion": FIXED, "document_length": 40},
        {"skiplist_words": [",", "."]},
        {"prompts": PROMPTS},
    ),
    "attended": ({"query_expansion": {**FIXED, "attend": True}}, {}, {"similarity_fn_name": "meanmaxsim"}),
    "minimum": ({"query_expansion": {**FIXED, "strategy": "min"}, "query_length": 24}, {}, {}),
}


def save_pylate(folder: Path) -> Path:
    """A folder as PyLate 3 writes it."""
    path = save_multi_vector_encoder(folder, "plain")
    modules = json.loads((path / "modules.json").read_text())
    kept = [module for module in modules if module["type"].rpartition(".")[2] in ("Transformer", "Dense")]
    kept[0]["type"], kept[1]["type"] = "sentence_transformers.models.Transformer", "pylate.models.Dense.Dense"
    (path / "modules.json").write_text(json.dumps(kept))
    fields = {"model_type": "ColBERT", "query_prefix": "[Q] ", "document_prefix": "[D] ", "do_query_expansion": True}
    fields |= {"query_length": 12, "document_length": 32, "skiplist_words": ["."], "similarity_fn_name": "MaxSim"}
    (path / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {}, **fields}))
    edit_json(path / "tokenizer_config.json", mask_token="[UNK]")
    return path


def save_stanford(folder: Path) -> Path:
    """A folder as ColBERT's own code writes it."""
    import torch
    from safetensors.torch import load_file, save_file

    path = save_tiny_model(folder / "stanford", "sentence-embedding", seed=6)
    weights = load_file(path / "model.safetensors")
    torch.manual_seed(0)
    named = {f"bert.{name}": weight for name, weight in weights.items()}
    save_file({**named, "linear.weight": torch.randn(WIDTH, 32)}, path / "model.safetensors", {"format": "pt"})
    edit_json(path / "config.json", architectures=["HF_ColBERT"])
    fields = {"query_token_id": "[CLS]", "doc_token_id": "[SEP]", "query_maxlen": 12, "doc_maxlen": 40, "dim": WIDTH}
    (path / "artifact.metadata").write_text(
        json.dumps({**fields, "mask_punctuation": True, "attend_to_mask_tokens": False})
    )
    edit_json(path / "tokenizer_config.json", mask_token="[UNK]")
    return path


def save_multi_vector_encoder(folder: Path, kind: str) -> Path:
    encoder_options, mask_options, options = KINDS[kind]
    return save_late_interaction(folder / "saved", encoder_options, mask_options, **options)


@pytest.fixture(scope="module", params=[*KINDS, "pylate", "stanford"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(request.param)
    if request.param in KINDS:
        return save_multi_vector_encoder(path, request.param)
    return {"pylate": save_pylate, "stanford": save_stanford}[request.param](path)


@pytest.fixture(scope="module")
def library(folder: Path) -> Any:
    return MultiVectorEncoder(str(folder), device="cpu", local_files_only=True)


@pytest.fixture(scope="module")
def model(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Model:
    return open_folder(folder, tmp_path_factory.mktemp("project"), "multi-vector-embedding")


def test_documents_are_those_of_encode_document(model: Model, library: Any) -> None:
    for answer, expected in zip(reply(model, {"inputs": TEXTS}), library.encode_document(TEXTS), strict=True):
        np.testing.assert_allclose(np.array(answer), expected.numpy(), atol=1e-4)


def test_queries_are_those_of_encode_query(model: Model, library: Any) -> None:
    answers = reply(model, {"inputs": QUERIES, "parameters": {"is_query": True}})
    for answer, expected in zip(answers, library.encode_query(QUERIES), strict=True):
        np.testing.assert_allclose(np.array(answer), expected.numpy(), atol=1e-4)


def test_documents_are_ranked_by_similarity(model: Model, library: Any) -> None:
    (expected,) = library.similarity(library.encode_query(QUERIES[1:2]), library.encode_document(TEXTS)).numpy()
    ranked = reply(model, {"query": QUERIES[1], "texts": TEXTS})
    assert [entry["index"] for entry in ranked] == np.argsort(-expected, kind="stable").tolist()
    np.testing.assert_allclose([entry["score"] for entry in ranked], np.sort(expected)[::-1], atol=1e-3)


@pytest.mark.parametrize(
    ("precision", "dtype", "scale"), [("float32", "<f4", 1), ("float16", "<f2", 1), ("int8", "i1", 127)]
)
def test_precisions(model: Model, precision: str, dtype: str, scale: int) -> None:
    whole = np.array(reply(model, {"inputs": TEXTS[1]}))
    numbers = np.array(reply(model, {"inputs": TEXTS[1], "parameters": {"precision": precision}}))
    np.testing.assert_allclose(numbers / scale, whole, atol=5e-3)
    packed = reply(model, {"inputs": TEXTS[1], "parameters": {"precision": precision, "encoding": "base64"}})
    values = np.frombuffer(base64.b64decode(packed["data"]), dtype).reshape(packed["shape"])
    np.testing.assert_array_equal(values.astype(np.float64), numbers)


def compiled(project: Project, folder: Path, **fields: Any) -> Model:
    defaults = {"task": "multi-vector-embedding", "shapes": {"exact": ["1x64"]}}
    path = write_spec(project, "late", **{**defaults, "source": {"path": str(folder)}, **fields})
    return Model(compile_model(read_spec(path), project, no_progress).folder, make_settings(), TASKS)


def test_packed_rows_have_the_same_vectors(project: Project, tmp_path: Path) -> None:
    folder = save_multi_vector_encoder(tmp_path, "attended")
    alone, packed = compiled(project, folder), compiled(project, folder, shapes={"exact": ["1x64p", "2x64p"]})
    document = {"inputs": TEXTS, "parameters": {"is_query": True}}
    for answer, expected in zip(reply(packed, document), reply(alone, document), strict=True):
        np.testing.assert_allclose(np.array(answer), np.array(expected), atol=1e-4)
    hidden = save_multi_vector_encoder(tmp_path / "hidden", "colbert")
    with pytest.raises(NotPackable, match="late: its rows cannot be packed: queries are padded with expansion tokens"):
        compiled(project, hidden, shapes={"exact": ["2x64p"]})


def test_a_query_needs_a_shape_for_all_its_tokens(project: Project, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="late: queries have 16 tokens in this model, and its longest shape has 12"):
        compiled(project, save_multi_vector_encoder(tmp_path, "colbert"), shapes={"exact": ["1x12"]})


def test_lengths_of_queries_and_documents_override_the_encoders(project: Project, tmp_path: Path) -> None:
    folder = save_multi_vector_encoder(tmp_path, "colbert")
    edit_json(folder / "sentence_bert_config.json", max_seq_length=15)
    path = new_spec(project, "late", str(folder), None).path
    assert "auto: 40 " in path.read_text()
    model = Model(
        compile_model(read_spec(path, {"engine": ENGINE}), project, no_progress).folder, make_settings(), TASKS
    )
    library = MultiVectorEncoder(str(folder), device="cpu", local_files_only=True)
    (answer,), (query,) = (reply(model, {"inputs": TEXTS[3:4], "is_query": flag}) for flag in (False, True))
    assert (len(answer), len(query)) == (40, 16)
    np.testing.assert_allclose(np.array(answer), library.encode_document(TEXTS[3]).numpy(), atol=1e-4)
    np.testing.assert_allclose(np.array(query), library.encode_query(TEXTS[3]).numpy(), atol=1e-4)


def test_a_query_counts_once_however_many_documents_there_are(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    member = model.members[0]
    limits = member.settings.limits._replace(instances=len(TEXTS))
    settings = member.settings
    monkeypatch.setattr(member, "settings", settings._replace(limits=limits))
    assert len(reply(model, {"query": "ok", "texts": TEXTS})) == len(TEXTS)
    refused = reply(model, {"inputs": [*TEXTS, *QUERIES]}, 413)
    assert refused["type"] in ("TooManyInstances", "TooManyRows")
    monkeypatch.setattr(member, "settings", settings._replace(limits=limits._replace(instances=1)))
    assert len(reply(model, {"query": "ok", "texts": TEXTS[:1]})) == 1
    queries = [f"{word} {' '.join(WORDS[:12])}" for word in WORDS[:4]]  # of 12 to 24 tokens each
    monkeypatch.setattr(member, "settings", settings._replace(limits=limits._replace(tokens=50)))
    refused = reply(model, {"inputs": [{"query": query, "document": "ok"} for query in queries]}, 413)
    assert refused["type"] == "TooMuchWork"
    assert len(reply(model, {"query": queries[0], "texts": ["ok"] * 3})) == 3


def test_models_that_cannot_be_compiled_are_refused_by_name(project: Project, tmp_path: Path) -> None:
    from sentence_transformers.multi_vector_encoder.modules import token_pooling

    pooling = next(
        kind for name, kind in vars(token_pooling).items() if name.endswith("TokenPooling") and name[0] != "B"
    )
    folder = save_multi_vector_encoder(tmp_path, "plain")
    modules = json.loads((folder / "modules.json").read_text())
    name = f"{pooling.__module__}.{pooling.__qualname__}"
    (folder / "modules.json").write_text(json.dumps([*modules, {"idx": 4, "name": "4", "path": "4", "type": name}]))
    with pytest.raises(SourceError, match=rf"{pooling.__qualname__}, cannot be compiled; for the task multi-vector"):
        compiled(project, folder)
    left = save_multi_vector_encoder(tmp_path / "left", "colbert")
    edit_json(left / "tokenizer_config.json", padding_side="left")
    with pytest.raises(SourceError, match="fills queries up on the left"):
        compiled(project, left)
    kept = save_multi_vector_encoder(tmp_path / "kept", "plain")
    (mask,) = kept.glob("*MultiVectorMask")
    edit_json(mask / "config.json", keep_only_token_ids=[5])
    with pytest.raises(SourceError, match="keeps some tokens of documents only"):
        compiled(project, kept)


def test_a_ranking_needs_texts(model: Model) -> None:
    assert "texts[1]" in reply(model, {"query": "a", "texts": ["b", None]}, 400)["error"]
    assert reply(model, {"query": "a", "texts": [""]})[0]["index"] == 0
    for pair in ({"query": "a", "document": None}, {"query": "a"}):
        assert 'the field "document" is missing' in reply(model, {"inputs": [pair]}, 400)["error"]


def test_tensors_of_every_precision(model: Model) -> None:
    tensor = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["ok"]}
    for precision in ("float16", "int8"):
        answer = reply(model, {"inputs": [tensor], "parameters": {"precision": precision}})
        assert answer["outputs"][0]["datatype"] == "BYTES"
