"""A row's answer is the server's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

import marina
from handlers.worker.answering.model import Model
from handlers.worker.archive.artifact import ARTIFACT_FOLDER
from handlers.worker.archive.unpack import unpack
from handlers.worker.errors import RequestError
from handlers.worker.settings import read_settings
from handlers.worker.tasks import TASKS as KNOWN
from marina.errors import MarinaError
from marina.project import Project
from marina.score.scorer import Scorer
from marina.score.values import Counts, Read
from tests.marina.score.archives import TASKS, project_with, texts_of

HEADERS = {"content-type": "application/json"}
CLOSE = 2e-5  # between graphs of different shapes


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with an archive for each task."""
    return project_with(tmp_path_factory.mktemp("store"), *TASKS)


def columns_of(task: str, texts: list[str]) -> dict[str, list[Any]]:
    if task == "question-answering":
        return {"question": [text[:30] for text in texts], "context": texts}
    if task == "reranking":
        return {"query": [text[:30] for text in texts], "document": texts}
    return {"text": texts}


def served(archive: Path, folder: Path, columns: dict[str, list[Any]]) -> list[Any]:
    """The server's answer to every row in a request of its own."""
    unpack(archive, folder)
    config = yaml.safe_load((folder / "model-config.yaml").read_text())
    model = Model(folder / ARTIFACT_FOLDER, read_settings(config), KNOWN)
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [json.loads(model.reply([(json.dumps({"inputs": row}).encode(), HEADERS)])[0].body) for row in rows]


def check_same(task: str, row: dict[str, Any], answer: Any) -> None:
    """Compare the columns of a row with the server's answer."""
    if task == "sentence-embedding":
        np.testing.assert_allclose(row["embedding"], answer, atol=CLOSE)
    elif task == "multi-vector-embedding":
        assert row["score"] is None
        np.testing.assert_allclose(row["embedding"], answer, atol=CLOSE)
    elif task == "sparse-embedding":
        assert row["indices"] == [entry["index"] for entry in answer]
        np.testing.assert_allclose(row["values"], [entry["value"] for entry in answer], atol=CLOSE)
    elif task in ("text-classification", "zero-shot-classification"):
        assert row["label"] == answer[0]["label"]
        assert row["score"] == pytest.approx(answer[0]["score"], abs=CLOSE)
    elif task == "reranking":
        assert row["score"] == pytest.approx(answer, abs=CLOSE)
    elif task == "token-classification":
        entities = json.loads(row["entities"])
        assert [one["entity"] for one in entities] == [one["entity"] for one in answer]
        assert [one["start"] for one in entities] == [one["start"] for one in answer]
    else:
        assert (row["answer"], row["start"], row["end"]) == (answer["answer"], answer["start"], answer["end"])
        assert row["score"] == pytest.approx(answer["score"], abs=CLOSE)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("count", [60, pytest.param(5000, marks=pytest.mark.long)])
def test_answers_are_the_servers(store: Project, tmp_path: Path, name: str, count: int) -> None:
    archive, task = store.model_store / f"{name}.mar", TASKS[name]
    columns = columns_of(task, texts_of(count))
    answers = Scorer(archive)(pa.RecordBatch.from_pydict(columns))
    assert answers["error"].null_count == count
    for row, answer in zip(answers.to_pylist(), served(archive, tmp_path / name, columns), strict=True):
        check_same(task, row, answer)


def test_a_row_that_cannot_be_answered_stops_nothing(store: Project) -> None:
    scorer = marina.Scorer(store.model_store / "intent.mar")
    texts = ["invoice", None, "x " * 200_000, "please"]
    answers = scorer(pa.RecordBatch.from_pydict({"text": texts, "id": [1, 2, 3, 4]}))
    assert answers["id"].to_pylist() == [1, 2, 3, 4]
    assert [one is None for one in answers["label"].to_pylist()] == [False, True, True, False]
    errors = answers["error"].to_pylist()
    assert errors[1] == "InvalidInstance: the row.text must be a text, not null"
    assert errors[2].startswith("TooManyCharacters: the row.text has 400000 characters")
    assert answers["truncated"].to_pylist() == [False, None, None, False]


def test_rows_that_are_cut_are_counted(store: Project) -> None:
    scorer = Scorer(store.model_store / "intent.mar")
    rows = pa.table({"text": ["invoice", "please " * 500, None, "x " * 200_000]})
    _, counts = scorer.answer(scorer.compute(scorer.encode(Read(rows, {}))))
    assert 0 < counts.tokens <= counts.computed
    without_tokens = counts._replace(tokens=0, computed=0)
    assert without_tokens == Counts(rows=4, errors=2, truncated=1)
    earlier = {"rows": 2, "errors": 1, "tokens": 5, "computed": 8}
    assert Counts.total([without_tokens._asdict(), earlier]) == Counts(6, 3, 5, 8, 1)


def test_an_empty_batch_has_all_columns(store: Project) -> None:
    scorer = Scorer(store.model_store / "search.mar")
    empty = scorer(pa.RecordBatch.from_pydict({"text": pa.array([], pa.string())}))
    assert empty.schema == scorer.schema(pa.schema([("text", pa.string())]))
    assert len(empty) == 0


def test_columns_can_have_other_names(store: Project) -> None:
    batch = pa.RecordBatch.from_pydict({"body": ["invoice"], "label": ["?"], "id": [1]})
    scorer = Scorer(store.model_store / "intent.mar", columns={"text": "body"}, prefix="own_")
    assert scorer(batch).schema.names == ["body", "label", "id", "own_label", "own_score", "own_truncated", "own_error"]
    scorer = Scorer(store.model_store / "intent.mar", columns={"text": "body"}, keep=["id"])
    assert scorer(batch).schema.names == ["id", "label", "score", "truncated", "error"]


def test_several_labels_and_answers(store: Project) -> None:
    scorer = Scorer(store.model_store / "intent.mar", parameters={"top_k": 2})
    (labels,) = scorer(pa.RecordBatch.from_pydict({"text": ["invoice"]}))["labels"].to_pylist()
    assert [set(one) for one in labels] == [{"label", "score"}] * 2
    scorer = Scorer(store.model_store / "help.mar", parameters={"top_k": 3})
    columns = {"question": ["how"], "context": ["reset my password please"]}
    (row,) = scorer(pa.RecordBatch.from_pydict(columns)).to_pylist()
    assert json.loads(row["answers"])[0] == {name: row[name] for name in ("score", "start", "end", "answer")}


@pytest.mark.parametrize(
    ("options", "columns", "message"),
    [
        ({}, {"body": ["x"]}, "the input has no column 'text'; it has body; name the column that holds the text"),
        ({}, {"text": [1]}, "the column 'text' holds int64, and not texts"),
        ({}, {"text": ["x"], "label": ["y"]}, "both the input and the answers have a column 'label'"),
        ({"keep": ["id"]}, {"text": ["x"]}, "the input has no column 'id' to keep; it has text"),
        ({"columns": {"txt": "a"}}, {"text": ["x"]}, "this model has no field 'txt'; it has text, text_pair"),
    ],
)
def test_columns_that_do_not_fit_are_refused(
    store: Project, options: dict[str, Any], columns: dict[str, list[Any]], message: str
) -> None:
    scorer = Scorer(store.model_store / "intent.mar", **options)
    with pytest.raises(MarinaError, match=message.replace("(", r"\(")):
        scorer(pa.RecordBatch.from_pydict(columns))


def test_wrong_parameters_and_models_are_refused(store: Project) -> None:
    with pytest.raises(RequestError, match="unknown parameter"):
        Scorer(store.model_store / "intent.mar", parameters={"topk": 2})
    with pytest.raises(MarinaError, match="intent has no model 'x'; it has intent"):
        Scorer(store.model_store / "intent.mar", model="x")


def test_rows_that_are_all_refused_are_errors_of_their_rows(store: Project) -> None:
    scorer = Scorer(store.model_store / "search.mar", parameters={"dimensions": 7})
    answers = scorer(pa.RecordBatch.from_pydict({"text": ["invoice", "please"]}))
    assert [error.startswith("InvalidParameter: dimensions: ") for error in answers["error"].to_pylist()] == [True] * 2
