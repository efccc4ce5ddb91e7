import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from handlers.worker.request.schema import Fields
from marina.archive.pack import pack
from marina.compiler import compile_model
from marina.errors import MarinaError, SourceError
from marina.new import new_project, new_spec
from marina.project import find_project
from marina.spec import read_spec
from marina.spec.texts import read_texts
from tests.conftest import ENGINE, ROOT, no_progress


def test_a_model_is_compiled_and_packed_in_a_new_project(tmp_path: Path, tiny_models: dict[str, Path]) -> None:
    project = new_project(tmp_path / "p")
    assert find_project(tmp_path / "p" / "models") == project
    for task, folder in tiny_models.items():
        spec = read_spec(new_spec(project, task, str(folder), None).path, {"engine": ENGINE})
        assert (spec.task, spec.source.path) == (task, str(folder))
        assert spec.shapes.auto == 62  # the model reads 64
        assert pack(spec, compile_model(spec, project, no_progress).folder, project.model_store).path.is_file()


def test_a_project_has_the_configuration_of_this_one(tmp_path: Path) -> None:
    new_project(tmp_path)
    for name in (
        "config.properties",
        "deploy/log4j2.xml",
        "deploy/metrics.yaml",
        "deploy/nginx.conf",
        "deploy/systemd/marina.service",
    ):
        assert (tmp_path / name).read_bytes() == (ROOT / name).read_bytes()


def test_a_project_begins_with_a_page_and_a_sample_of_texts(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    new_project(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"
    assert len(read_texts(tmp_path / "examples" / "messages.csv", Fields("text"), "sample")) == 10
    new_project(tmp_path / "p")
    assert "marina new model" in (tmp_path / "p" / "README.md").read_text()


@pytest.mark.parametrize("name", ["1.10", "007", "no", "2024-01-01"])
def test_a_name_stays_what_it_is_in_yaml(tmp_path: Path, tiny_models: dict[str, Path], name: str) -> None:
    path = new_spec(new_project(tmp_path), name, str(tiny_models["sentence-embedding"]), None).path
    assert read_spec(path).name == name


def test_nothing_is_overwritten(tmp_path: Path, tiny_models: dict[str, Path]) -> None:
    project = new_project(tmp_path / "p")
    (project.root / "config.properties").write_text("mine")
    with pytest.raises(MarinaError, match="is a project already"):
        new_project(project.root)
    path = new_spec(project, "m", str(tiny_models["sentence-embedding"]), None).path
    path.write_text("mine")
    with pytest.raises(MarinaError, match=r"m\.yaml exists already"):
        new_spec(project, "m", str(tiny_models["text-classification"]), None)
    assert path.read_text() == (project.root / "config.properties").read_text() == "mine"


def test_a_folder_in_the_project_is_named_from_there(tmp_path: Path) -> None:
    project = new_project(tmp_path)
    folder = tmp_path / "weights" / "m"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"architectures": ["RobertaForTokenClassification"]}')
    spec = read_spec(new_spec(project, "m", str(folder), None).path)
    assert (spec.source.path, spec.task) == ("weights/m", "token-classification")
    (folder / "config.json").write_text('{"architectures": ["RobertaForQuestionAnswering"]}')
    question = read_spec(new_spec(project, "q", str(folder), "question-answering").path)
    assert (question.task, question.shapes.auto) == ("question-answering", 384)


@pytest.mark.parametrize(("library", "expected"), [(256, (256, 256)), (8192, (128, 510)), (None, (128, 510))])
def test_a_spec_is_for_texts_as_long_as_the_library_reads(
    tmp_path: Path, library: int | None, expected: tuple[int, int]
) -> None:
    project = new_project(tmp_path)
    folder = tmp_path / "weights" / "m"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"architectures": ["BertModel"], "max_position_embeddings": 512}')
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": library}))
    path, *lengths = new_spec(project, "m", str(folder), None)
    assert tuple(lengths) == expected
    assert read_spec(path).shapes.auto == expected[0]


@pytest.mark.parametrize(
    ("file", "document", "longest"),
    [
        ("sentence_bert_config.json", '{"max_seq_length": 20}', 20),
        ("sentence_bert_config.json", '{"max_seq_length": null}', 62),
        ("tokenizer_config.json", '{"model_max_length": 48}', 48),
        ("tokenizer_config.json", '{"model_max_length": 1000000000000000019884624838656}', 62),
        ("tokenizer_config.json", "damaged", 62),
    ],
)
def test_shapes_hold_what_the_model_reads(tmp_path: Path, file: str, document: str, longest: int) -> None:
    project = new_project(tmp_path)
    folder = tmp_path / "weights" / "m"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"architectures": ["BertModel"], "max_position_embeddings": 64}')
    (folder / file).write_text(document)
    assert read_spec(new_spec(project, "m", str(folder), None).path).shapes.auto == longest


@pytest.mark.parametrize("positions", ["-1", "0", "2", "null", '"many"'])
def test_a_number_of_positions_that_says_nothing_is_passed_over(tmp_path: Path, positions: str) -> None:
    folder = tmp_path / "weights"
    folder.mkdir()
    config = f'{{"architectures": ["BertModel"], "max_position_embeddings": {positions}}}'
    (folder / "config.json").write_text(config)
    assert new_spec(new_project(tmp_path), "m", str(folder), None).readable == 510


def test_what_is_wrong_is_said_and_nothing_written(tmp_path: Path) -> None:
    project = new_project(tmp_path)
    folder = tmp_path / "weights"
    folder.mkdir()
    with pytest.raises(SourceError, match=r"holds no model: config\.json is missing or damaged"):
        new_spec(project, "m", str(folder), None)
    (folder / "config.json").write_text('{"architectures": ["BertForMaskedLM"]}')
    with pytest.raises(SourceError, match="names the architectures BertForMaskedLM; give --task: sentence-embedding, "):
        new_spec(project, "m", str(folder), None)
    for name, task in (("token", "sentence-embedding"), ("a b", "sentence-embedding"), ("m", "telepathy")):
        with pytest.raises(MarinaError, match=f"^{name}: ") as refused:
            new_spec(project, name, str(folder), task)
        assert "pydantic" not in str(refused.value)
    tagger = tmp_path / "tagger"
    tagger.mkdir()
    (tagger / "config.json").write_text('{"architectures": ["BertForTokenClassification"]}')
    with pytest.raises(
        SourceError, match=r"is a BertForTokenClassification, which is for the task token-classification"
    ):
        new_spec(project, "m", str(tagger), "text-classification")
    for gone in ("./gone", "../gone", "/gone"):
        with pytest.raises(SourceError, match=rf"^{gone} is not a folder; name one that save_pretrained wrote"):
            new_spec(project, "m", gone, None)
    with pytest.raises(
        SourceError, match=r"a/b is not a folder, and the Hugging Face hub does not return it: .*; without"
    ):
        new_spec(project, "m", "a/b", None)
    assert list(project.models.iterdir()) == []


def test_a_model_that_the_hub_shows_and_keeps_back_is_told_on_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> str:  # the library's errors of HTTP are OSErrors
        raise OSError("403 Client Error.\n\nAccess to model a/gated is restricted.\nAsk for access.")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *_: SimpleNamespace(sha="c0ffee"))
    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    message = (
        r"^source a/gated@c0ffee cannot be fetched .*: 403 Client Error. Access .* Ask for access; without network"
    )
    with pytest.raises(SourceError, match=message):
        new_spec(new_project(tmp_path), "m", "a/gated", None)


def test_only_files_of_the_configuration_are_fetched_from_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def fetch(model: str, revision: str, allow_patterns: list[str]) -> str:
        asked.append((model, revision, allow_patterns))
        (tmp_path / "snapshot").mkdir()
        (tmp_path / "snapshot" / "config.json").write_text('{"architectures": ["BertModel"]}')
        return str(tmp_path / "snapshot")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *_: SimpleNamespace(sha="c0ffee"))
    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    spec = read_spec(new_spec(new_project(tmp_path / "p"), "m", "a/b", None).path)
    assert (spec.source.hub, spec.source.revision, spec.task) == ("a/b", "c0ffee", "sentence-embedding")
    assert asked == [("a/b", "c0ffee", ["*.json", "artifact.metadata"])]
