"""Several models in one worker: each answers as it does alone, and one that fails takes no other down."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from handlers.worker.answering.model import Model
from handlers.worker.answering.reply import TRUNCATED_HEADER
from handlers.worker.archive.artifact import ARTIFACT_FOLDER
from handlers.worker.errors import KINDS, ArtifactError
from handlers.worker.settings import Settings, read_settings
from handlers.worker.tasks import TASKS
from handlers.worker.tokens.tokenizer import RowTokenizer
from handlers.worker.values import Shape
from marina.archive.bundle import pack_bundle
from marina.archive.pack import pack
from marina.archive.read import read_archive, read_artifacts
from marina.compiler import compile_model
from marina.spec import read_spec
from marina.spec.bundle import Bundle
from tests.conftest import ENGINE, ENGINES, WORDS, make_project, no_progress, save_tiny_model, write_spec

JSON = {"content-type": "application/json"}
LONG = " ".join(WORDS * 4)
MODELS = {"intent": "text-classification", "ner": "token-classification", "search": "sentence-embedding"}


class Packed:
    """Archives, unpacked as TorchServe does: of three models, and of a bundle of them."""

    def __init__(self, root: Path, engine: str, sources: dict[str, Path]) -> None:
        project = make_project(root / "project")
        self.members = []
        for name, task in MODELS.items():
            fields: dict[str, Any] = {"task": task, "source": {"path": str(sources[task])}}
            fields |= {"engine": engine, "shapes": {"exact": ["1x16", "4x16", "4x64"]}}
            if name == "ner":
                fields |= {"serving": {"max_instances": 2}, "parameters": {"aggregation_strategy": "simple"}}
            spec = read_spec(write_spec(project, name, **fields))
            self.members.append((spec, compile_model(spec, project, no_progress).folder))
        self.bundle = Bundle.model_validate({"name": "bot", "bundle": list(MODELS), "serving": {"batch_size": 1000}})
        self.archive = pack_bundle(self.bundle, self.members, root).path
        self.alone = {spec.name: open_model(pack(spec, folder, root).path, root) for spec, folder in self.members}
        self.together = open_model(self.archive, root)


def unpack(archive: Path, root: Path) -> tuple[Path, Settings]:
    folder = root / archive.stem
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)
    config = yaml.safe_load((folder / "model-config.yaml").read_text())
    wide = {"deadline_ms": 600_000, "max_batch_ms": 600_000}
    return folder / ARTIFACT_FOLDER, read_settings({**config, "handler": {**config["handler"], **wide}})


def open_model(archive: Path, root: Path) -> Model:
    folder, found = unpack(archive, root)
    return Model(folder, found, TASKS)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory, tiny_models: dict[str, Path]) -> dict[str, Path]:
    task, labels = "token-classification", {0: "O", 1: "B-NAME", 2: "I-NAME"}
    folder = tmp_path_factory.mktemp("tagger") / "model"
    return {**tiny_models, task: save_tiny_model(folder, task, seed=1, id2label=labels)}


@pytest.fixture(scope="module", params=[ENGINE, *(pytest.param(one, marks=pytest.mark.long) for one in ENGINES[1:])])
def packed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, sources: dict[str, Path]
) -> Packed:
    return Packed(tmp_path_factory.mktemp("bundle"), request.param, sources)


@pytest.fixture(scope="module")
def model(packed: Packed) -> Model:
    return packed.together


def ask(model: Model, *documents: Any) -> list[tuple[int, Any]]:
    replies = model.reply([(json.dumps(document).encode(), JSON) for document in documents])
    return [(reply.status, json.loads(reply.body)) for reply in replies]


def alike(one: Any, other: Any) -> bool:
    """Whether two answers are equal but for rounding."""
    if isinstance(one, dict):
        return (
            isinstance(other, dict) and one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
        )
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(alike, one, other))
    return bool(one == pytest.approx(other, abs=1e-4)) if isinstance(one, float) else bool(one == other)


requests = st.lists(
    st.tuples(st.sampled_from(list(MODELS)), st.lists(st.sampled_from([*WORDS, "ok", LONG, "👍"]), max_size=3)),
    max_size=8,
)


@settings(max_examples=25)
@given(requests)
def test_every_model_answers_as_it_does_alone(packed: Packed, batch: list[tuple[str, list[str]]]) -> None:
    mixed = ask(packed.together, *({"model": name, "inputs": texts} for name, texts in batch))
    for (name, texts), found in zip(batch, mixed, strict=True):
        (expected,) = ask(packed.alone[name], {"inputs": texts})
        assert alike(list(found), list(expected))


@settings(max_examples=15)
@given(st.lists(st.sampled_from(list(MODELS)), min_size=1, unique=True), st.sampled_from(["ok", LONG, "çà"]))
def test_several_models_answer_the_same_text(packed: Packed, names: list[str], text: str) -> None:
    ((status, answers),) = ask(packed.together, {"models": names, "inputs": text})
    assert (status, list(answers)) == (200, names)
    for name in names:
        assert alike(answers[name], ask(packed.alone[name], {"inputs": text})[0][1])


def test_a_text_for_several_models_is_tokenized_once(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    (tokenizer,) = {id(member.reader): member.reader for member in model.members}.values()
    assert isinstance(tokenizer, RowTokenizer)
    library, read = tokenizer.library, []

    class Listening:
        decoder = library.decoder
        model = library.model

        @staticmethod
        def encode_batch(inputs: list[str]) -> Any:
            read.extend(inputs)
            return library.encode_batch(inputs)

    monkeypatch.setattr(tokenizer, "library", Listening)
    assert ask(model, {"models": list(MODELS), "inputs": ["ok", "thanks"]})[0][0] == 200
    assert read == ["ok", "thanks"]


def test_parameters_are_by_model_if_there_are_several(model: Model) -> None:
    body = {"models": ["intent", "ner"], "inputs": "ok", "parameters": {"intent": {"top_k": 1}}}
    ((status, answers),) = ask(model, body)
    assert status == 200
    assert len(answers["intent"]) == 1
    ((status, refused),) = ask(model, {**body, "parameters": {"top_k": 1}})
    assert (status, refused["type"]) == (400, "InvalidParameter")
    ((status, refused),) = ask(model, {**body, "parameters": {"search": {}, "tags": {}}})
    assert (status, refused["type"]) == (400, "InvalidParameter")
    assert refused["error"].endswith('; "search" is not one of them')


def test_limits_and_parameters_are_each_models_own(model: Model) -> None:
    replies = ask(model, *({"model": name, "inputs": ["ok"] * 3} for name in MODELS))
    assert [status for status, _ in replies] == [200, 413, 200]
    ((status, answers),) = ask(model, {"models": ["ner", "intent"], "inputs": ["ok"] * 3})
    assert (status, answers["ner"]["code"], len(answers["intent"])) == (200, 413, 3)
    described = model.describe()["members"]
    assert {name: own["limits"]["instances"] for name, own in described.items()} == {
        "intent": 256,
        "ner": 2,
        "search": 256,
    }
    assert described["ner"]["parameters"]["aggregation_strategy"] == "simple"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"inputs": "ok"}, "NoModel"),
        ({"model": "intents", "inputs": "ok"}, "NoModel"),
        ({"model": ["intent"], "inputs": "ok"}, "NoModel"),
        ({"models": ["intent", "intents"], "inputs": "ok"}, "NoModel"),
        ({"models": ["intent", {}], "inputs": "ok"}, "NoModel"),
        ({"models": [], "inputs": "ok"}, "InvalidBody"),
        ({"models": "intent", "inputs": "ok"}, "InvalidBody"),
        ({"models": ["intent", "intent"], "inputs": "ok"}, "InvalidBody"),
        ({"model": "intent", "models": ["ner"], "inputs": "ok"}, "InvalidBody"),
        ({"models": ["intent"], "inputs": "ok", "parameters": []}, "InvalidParameter"),
        ({"model": "intent"}, "InvalidBody"),
        ({"model": "intent", "inputs": "ok", "parameters": {"stride": 1}}, "InvalidParameter"),
        (["ok"], "NoModel"),
        ({"models": ["intent", "ner"], "inputs": 5}, "InvalidInstance"),
    ],
)
def test_what_a_bundle_refuses(model: Model, body: Any, kind: str) -> None:
    (refused, good) = ask(model, body, {"model": "intent", "inputs": "ok"})
    assert good[0] == 200
    status, document = refused
    assert status == KINDS[kind].status
    assert document["type"] == kind


def test_plain_text_names_no_model(model: Model) -> None:
    (reply,) = model.reply([(b"ok", {"content-type": "text/plain"})])
    assert json.loads(reply.body)["error"] == 'a bundle needs JSON with a "model": intent, ner, search'


def test_every_protocol_names_its_model(model: Model) -> None:
    tensors = [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["ok"]}]
    embedded, instances, tensor, tokens = ask(
        model,
        {"model": "search", "input": "ok"},
        {"model": "intent", "instances": ["ok"]},
        {"inputs": tensors, "parameters": {"model": "intent", "top_k": 1}},
        {"model": "intent", "tokenize": "ok"},
    )
    assert [token["text"] for token in tokens[1][0]] == ["[CLS]", "ok", "[SEP]"]
    assert embedded[1]["model"] == "search"
    assert len(instances[1]["predictions"]) == 1
    assert tensor[1]["model_name"] == "intent"
    assert tensor[1]["outputs"][0]["shape"] == [1, 1]


def test_a_model_that_fails_takes_no_other_down(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> Any:
        raise RuntimeError("nrt_execute failed")

    for graph in model.members[1].graphs.streams[0].values():
        monkeypatch.setattr(graph, "run", fail)
    replies = ask(
        model, *({"model": name, "inputs": "ok"} for name in MODELS), {"models": list(MODELS), "inputs": "ok"}
    )
    assert [status for status, _ in replies] == [200, 500, 200, 200]
    assert {name: "error" in answer for name, answer in replies[3][1].items()} == {
        "intent": False,
        "ner": True,
        "search": False,
    }


def test_a_model_that_does_not_start_takes_no_other_down(packed: Packed, tmp_path: Path) -> None:
    folder, found = unpack(packed.archive, tmp_path)
    golden = json.loads((folder / "ner" / "golden.json").read_text())
    golden[0]["ids"][0] += 1
    (folder / "ner" / "golden.json").write_text(json.dumps(golden))
    model = Model(folder, found, TASKS)
    assert list(model.failures) == ["ner"]
    assert "golden.json is damaged" in str(model.failures["ner"])
    assert model.failures["ner"].__traceback__ is None  # it would keep the model's graphs in memory
    assert list(model.describe()["failed"]) == ["ner"]
    replies = ask(model, *({"model": name, "inputs": "ok"} for name in MODELS), {"models": ["ner"], "inputs": "ok"})
    assert [status for status, _ in replies] == [200, 500, 200, 500]
    assert replies[1][1]["type"] == "ModelFailed"
    for name in MODELS:
        (folder / name / "golden.json").write_text("[]")
    with pytest.raises(ArtifactError, match=r"golden\.json is damaged"):
        Model(folder, found, TASKS)


def test_calls_of_one_model_follow_each_other(model: Model) -> None:
    model.metrics.take()
    texts = WORDS[:4]
    ask(model, *({"model": name, "inputs": text} for text in texts for name in MODELS))
    counts = model.metrics.take()
    assert counts.get(("marina_model_switches_total", ()), 0) <= 3
    assert {labels: value for (name, labels), value in counts.items() if name == "marina_requests_total"} == {
        (name, "200"): 4 for name in MODELS
    }
    assert {
        labels[0]: value for (name, labels), value in counts.items() if name == "marina_rows_total"
    } == dict.fromkeys(MODELS, 4)


def test_truncated_texts_are_named_by_model(model: Model) -> None:
    one, several = model.reply(
        [
            (json.dumps({"model": "intent", "inputs": ["ok", LONG]}).encode(), JSON),
            (json.dumps({"models": ["intent", "search"], "inputs": [LONG, "ok"]}).encode(), JSON),
        ]
    )
    assert one.headers[TRUNCATED_HEADER] == "1"
    assert several.headers[TRUNCATED_HEADER] == "intent=0;search=0"


def test_equal_files_are_stored_once(packed: Packed, tmp_path: Path) -> None:
    with zipfile.ZipFile(packed.archive) as file:
        names = file.namelist()
    assert [name for name in names if name.endswith("tokenizer.json")] == ["artifact/intent/tokenizer.json"]
    twins = [read_spec(write_spec(make_project(tmp_path / "p"), name, **FIELDS)) for name in ("one", "two")]
    folder = packed.members[0][1]
    both = []
    for twin in twins:
        copied = Path(shutil.copytree(folder, tmp_path / twin.name / "artifact"))
        document = json.loads((copied / "artifact.json").read_text())
        (copied / "artifact.json").write_text(json.dumps({**document, "name": twin.name}))
        both.append((twin, copied))
    bundle = Bundle.model_validate({"name": "twins", "bundle": ["one", "two"]})
    archive = pack_bundle(bundle, both, tmp_path).path
    assert archive.stat().st_size < 1.5 * pack(*both[0], tmp_path).path.stat().st_size
    model = open_model(archive, tmp_path)
    one, two = ask(model, {"model": "one", "inputs": "ok"}, {"model": "two", "inputs": "ok"})
    assert alike(list(one), list(two))


FIELDS: dict[str, Any] = {"task": "text-classification", "source": {"path": "w"}, "shapes": {"exact": ["1x16"]}}


def test_a_bundle_is_packed_the_same_byte_for_byte_and_can_be_read(packed: Packed, tmp_path: Path) -> None:
    again = pack_bundle(packed.bundle, packed.members, tmp_path)
    assert again.path.read_bytes() == packed.archive.read_bytes()
    assert pack_bundle(packed.bundle, packed.members, tmp_path).reused
    assert {name: artifact.task for name, artifact in read_artifacts(packed.archive).items()} == MODELS
    with pytest.raises(ArtifactError, match="is a bundle of intent, ner, search"):
        read_archive(packed.archive)
    # a member that was compiled again makes another archive
    changed = packed.bundle.model_copy(update={"serving": packed.bundle.serving.model_copy(update={"batch_size": 3})})
    assert not pack_bundle(changed, packed.members, tmp_path).reused


def test_the_cost_of_switching_is_measured(model: Model) -> None:
    described = model.describe()
    assert set(described["members"]) == set(MODELS)
    assert all(own["switch_ms"] >= 0 for own in described["members"].values())
    assert described["name"] == "bot"
    assert Shape.parse(next(iter(described["members"]["intent"]["milliseconds"])))
