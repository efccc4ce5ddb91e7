"""Embedding models against sentence-transformers itself, through the compiler and the worker."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentence_transformers
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Dropout, LayerNorm, Normalize, Pooling
from sentence_transformers.util import quantize_embeddings

from handlers.worker.answering.model import Model
from handlers.worker.errors import ArtifactError
from handlers.worker.tasks import TASKS
from marina.compiler import compile_model
from marina.compiler.hugging_face import fingerprint
from marina.compiler.tasks import sentence_embedding
from marina.compiler.tasks.wrappers import EmbeddingModel
from marina.errors import CompileError, SourceError, SpecError
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import no_progress, write_spec
from tests.embedders import PROMPTS, WIDTH, edit_json, save_embedder
from tests.settings import make_settings

TEXTS = ["ok", " Change company ADDRESS\n", "", "how do i reset my password?", "ok thanks " * 9]
DIRECT = {"content-type": "application/json", "host": "x"}


def open_model(project: Project, folder: Path, **fields: Any) -> Model:
    shapes = {"exact": ["1x16", "4x40"]}
    options = {"task": "sentence-embedding", "source": {"path": str(folder)}, "shapes": shapes, **fields}
    artifact = compile_model(read_spec(write_spec(project, folder.name, **options)), project, no_progress).folder
    settings = make_settings()
    return Model(artifact, settings, TASKS)


def ask(model: Model, inputs: Any, **parameters: Any) -> Any:
    body = json.dumps({"inputs": inputs, "parameters": parameters}).encode()
    (reply,) = model.reply([(body, DIRECT)])
    return np.array(json.loads(reply.body)) if reply.status == 200 else json.loads(reply.body)


def test_a_served_model_tells_its_prompts(project: Project, tmp_path: Path) -> None:
    model = open_model(project, save_embedder(tmp_path / "m", prompts=PROMPTS, default_prompt_name="query"))
    described = model.describe()
    assert described["prompts"].items() >= PROMPTS.items()
    assert described["parameters"]["prompt_name"] == "query"


def load(folder: Path) -> Any:
    return SentenceTransformer(str(folder), device="cpu", local_files_only=True)


def check_answers(model: Model, folder: Path) -> None:
    library = load(folder)
    assert np.abs(ask(model, TEXTS) - library.encode(TEXTS)).max() < 1e-5
    for prompt in library.prompts:
        expected = library.encode(TEXTS, prompt_name=prompt)
        assert np.abs(ask(model, TEXTS, prompt_name=prompt) - expected).max() < 1e-5, prompt
    assert np.abs(ask(model, TEXTS, prompt_name=None) - library.encode(TEXTS, prompt="")).max() < 1e-5


MODES: list[Any] = [*Pooling.POOLING_MODES, ("mean", "cls", "max")]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_modules_are_run_in_their_order_with_every_pooling(project: Project, tmp_path: Path, mode: Any) -> None:
    width = WIDTH * (1 if isinstance(mode, str) else len(mode))
    modules = (
        lambda: Pooling(width // WIDTH and WIDTH, mode),
        lambda: Dense(width, 16),
        lambda: LayerNorm(16),
        lambda: Dropout(0.4),
        Normalize,
    )
    folder = save_embedder(tmp_path / "m", *modules, prompts=PROMPTS, default_prompt_name="query")
    check_answers(open_model(project, folder), folder)


@pytest.mark.parametrize("mode", ["mean", "cls", "lasttoken", "max"])
def test_prompts_that_pooling_leaves_out(project: Project, tmp_path: Path, mode: Any) -> None:
    folder = save_embedder(tmp_path / "m", lambda: Pooling(WIDTH, mode, include_prompt=False), prompts=PROMPTS)
    check_answers(open_model(project, folder), folder)


def test_what_else_a_folder_says_is_heard(project: Project, tmp_path: Path) -> None:
    folder = save_embedder(
        *(tmp_path / "m", lambda: Pooling(WIDTH, "mean"), Normalize), truncate_dim=8, max_seq_length=40
    )
    edit_json(folder / "sentence_bert_config.json", do_lower_case=True)
    # the encoder in a folder of its own, as older releases wrote it
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    inner = folder / "0_Transformer"
    inner.mkdir()
    for path in [*folder.glob("*token*"), *folder.glob("model*"), *folder.glob("*bert*"), folder / "config.json"]:
        shutil.move(path, inner / path.name)
    (folder / "modules.json").write_text(json.dumps(modules))
    model = open_model(project, folder)
    assert ask(model, "ok").shape == (8,)
    check_answers(model, folder)
    with pytest.raises(CompileError, match=r"a shape of 48 tokens is more than the model can read \(40\)"):
        open_model(project, folder, shapes={"exact": ["1x48"]})


def test_a_folder_without_the_librarys_files_is_read_as_the_library_reads_it(project: Project, tmp_path: Path) -> None:
    save_embedder(tmp_path / "m")
    folder = tmp_path / "m-encoder"
    check_answers(open_model(project, folder), folder)


def test_a_spec_overrides_pooling_and_normalisation(project: Project, tmp_path: Path) -> None:
    folder = save_embedder(tmp_path / "m", lambda: Pooling(WIDTH, "cls"), Normalize, prompts=PROMPTS)
    vectors = load(folder).encode("change company address", prompt_name="query", output_value="token_embeddings")
    model = open_model(project, folder, pooling="mean", normalize=False)
    found = ask(model, "change company address", prompt_name="query")
    assert np.abs(found - vectors.mean(0).numpy()).max() < 1e-5


def test_requests_can_normalize_and_say_how_texts_are_cut(project: Project, tmp_path: Path) -> None:
    model = open_model(project, save_embedder(tmp_path / "m"))
    plain = ask(model, "ok")
    assert ask(model, "ok", normalize=True) == pytest.approx(plain / np.linalg.norm(plain))
    assert ask(model, "ok", normalize=False) == pytest.approx(plain)
    long = "change " + "ok " * 60 + "thanks"
    assert ask(model, long) == pytest.approx(ask(model, long, truncate=True))
    assert np.abs(ask(model, long, truncation_direction="left") - ask(model, long)).max() > 1e-3
    assert ask(model, long, truncate=False)["type"] == "TextTooLong"
    assert 'there is no prompt "x"; this model has: ' in ask(model, "ok", prompt_name="x")["error"]
    unit = open_model(project, save_embedder(tmp_path / "unit", lambda: Pooling(WIDTH, "mean"), Normalize))
    assert ask(unit, "ok", normalize=False)["type"] == "InvalidParameter"
    assert np.linalg.norm(ask(unit, "ok", normalize=True)) == pytest.approx(1)


def test_embeddings_are_cut_and_made_binary_as_by_the_library(project: Project, tmp_path: Path) -> None:
    folder = save_embedder(tmp_path / "m", lambda: Pooling(WIDTH, "mean"), Normalize)
    library, model = load(folder), open_model(project, folder, dimensions=[8, 24])
    for size in (8, 24, WIDTH):
        expected = library.encode(TEXTS, truncate_dim=size, normalize_embeddings=True)
        assert np.abs(ask(model, TEXTS, dimensions=size) - expected).max() < 1e-5
        for precision in ("binary", "ubinary"):
            answer = ask(model, TEXTS, dimensions=size, precision=precision)
            assert answer.tolist() == quantize_embeddings(expected, precision).tolist()
    assert ask(model, "ok", dimensions=16)["error"].endswith(f"not cut to that size; allowed: 8, 24, {WIDTH}")
    assert "must be float32 or binary or ubinary" in ask(model, "ok", precision="int4")["error"]
    assert ask(model, "ok", precision="int8")["error"].endswith("the spec of this model has no ranges for int8")
    # a comparison needs the values
    sentences = {"source_sentence": "ok", "sentences": ["thanks"]}
    assert ask(model, sentences, precision="binary") == pytest.approx(ask(model, sentences))
    # without unit length, normalize is for what is left
    plain = open_model(project, save_embedder(tmp_path / "plain"), dimensions=[8])
    whole = ask(plain, "ok")
    assert ask(plain, "ok", dimensions=8) == pytest.approx(whole[:8])
    cut = whole[:8] / np.linalg.norm(whole[:8])
    assert ask(plain, "ok", dimensions=8, normalize=True) == pytest.approx(cut, rel=1e-5)


@pytest.mark.skipif(not hasattr(sentence_transformers, "MultiVectorEncoder"), reason="release 6 rounds down")
def test_int8_embeddings_are_those_of_the_library_with_the_users_ranges(project: Project, tmp_path: Path) -> None:
    folder = save_embedder(tmp_path / "m", lambda: Pooling(WIDTH, "mean"), Normalize)
    embeddings = load(folder).encode(TEXTS)
    ranges = np.stack([embeddings.min(0) - 0.01, embeddings.max(0) + 0.013])
    ranges[1, :2] = ranges[0, :2]  # as of values that never change
    np.save(project.root / "ranges.npy", ranges)
    model = open_model(project, folder, dimensions=[8], ranges="ranges.npy")
    for precision in ("int8", "uint8"):
        answer, expected = ask(model, TEXTS, precision=precision), quantize_embeddings(embeddings, precision, ranges)
        differences = np.abs(answer - expected.astype(int))[:, 2:]
        assert differences.max() <= 1  # where the last bit of a value decides
        assert differences.mean() < 0.01
        assert set(np.unique(answer[:, :2])) == ({-128} if precision == "int8" else {0})
    assert "are those of whole embeddings" in ask(model, "ok", precision="int8", dimensions=8)["error"]
    for wrong, message in (
        (ranges[:, :5], "is for embeddings of 5 values; the model's have 32"),
        (ranges[::-1], "has the shape (2, 32), or values that are no ranges"),
        (ranges[0], "has the shape (32,)"),
        (np.array([["a"], ["b"]]), "cannot be read: it is no array of numbers"),
        (b"", "cannot be read"),
        (b"PK\x03\x04", "cannot be read"),
    ):
        if isinstance(wrong, bytes):
            (project.root / "ranges.npy").write_bytes(wrong)
        else:
            np.save(project.root / "ranges.npy", wrong)
        with pytest.raises((SpecError, CompileError), match=re.escape(message)):
            open_model(project, folder, ranges="ranges.npy")


def test_a_folder_says_itself_to_what_sizes_embeddings_may_be_cut(project: Project, tmp_path: Path) -> None:
    folder = save_embedder(tmp_path / "m")
    assert ask(open_model(project, folder), "ok", dimensions=8)["type"] == "InvalidParameter"
    edit_json(folder / "config.json", matryoshka_dimensions=[8, 16])
    model = open_model(project, folder, parameters={"dimensions": 16})
    assert [ask(model, "ok", dimensions=size).shape for size in (8, 16)] == [(8,), (16,)]
    with pytest.raises(SourceError, match=rf"m: dimensions {WIDTH + 1}: the model's embeddings have {WIDTH}"):
        open_model(project, folder, dimensions=[8, WIDTH + 1])
    with pytest.raises(ArtifactError, match=rf"parameters in the spec .* allowed: 8, 16, {WIDTH}"):
        open_model(project, folder, parameters={"dimensions": 12})
    assert open_model(project, folder, dimensions=[]).describe()["dimensions"] == [WIDTH]
    # what the folder cuts, or says in a form of its own, hinders nothing
    cut = save_embedder(tmp_path / "cut", lambda: Pooling(WIDTH, "mean"), truncate_dim=8)
    for named, sizes in (([16, 8, 4, True, "2"], [4, 8]), (64, [8]), (None, [8])):
        edit_json(cut / "config.json", matryoshka_dimensions=named)
        assert open_model(project, cut).describe()["dimensions"] == sizes


def test_texts_are_compared(project: Project, tmp_path: Path) -> None:
    folder = save_embedder(tmp_path / "m", prompts=PROMPTS, default_prompt_name="query")
    library, model = load(folder), open_model(project, folder)
    found = ask(model, {"source_sentence": "ok", "sentences": ["thanks", "ok", "change company address"]})
    one, others = library.encode("ok"), library.encode(["thanks", "ok", "change company address"])
    assert found == pytest.approx(library.similarity(one, others)[0].numpy(), abs=1e-5)
    assert found[1] == pytest.approx(1)
    wrong = ask(model, {"source_sentence": "ok", "sentences": ["a", 5]})
    assert wrong["error"].startswith("inputs.sentences[1] must be a text")
    assert ask(model, {"source_sentence": "ok"})["type"] == "InvalidBody"


def test_parameters_that_do_not_fit_the_model_are_refused_before_it_is_packed(project: Project, tmp_path: Path) -> None:
    folder = save_embedder(tmp_path / "m", lambda: Pooling(WIDTH, "mean"), Normalize, prompts=PROMPTS)
    assert open_model(project, folder, parameters={"prompt_name": "query"})
    with pytest.raises(
        ArtifactError, match=r'^m: parameters in the spec do not fit the model: there is no prompt "qeury"'
    ):
        open_model(project, folder, parameters={"prompt_name": "qeury"})
    with pytest.raises(ArtifactError, match="of unit length; leave out normalize"):
        open_model(project, folder, parameters={"normalize": False})


def test_a_prompt_must_leave_room_for_a_text(project: Project, tmp_path: Path) -> None:
    folder = save_embedder(tmp_path / "m", prompts={"query": "ok " * 20})
    with pytest.raises(CompileError, match=r"the prompt 'query' has 22 tokens, which leaves no room .* shape \(16\)"):
        open_model(project, folder, shapes={"exact": ["1x16"]})


def test_the_fingerprint_follows_the_files_of_modules_and_no_others(tmp_path: Path) -> None:
    folder = save_embedder(tmp_path / "m")
    modules = json.loads((folder / "modules.json").read_text())
    deep = folder / "mods" / "deep"
    deep.mkdir(parents=True)
    shutil.move(folder / "1_Pooling", deep / "pool")
    modules[1]["path"] = "mods/deep/pool"
    (folder / "modules.json").write_text(json.dumps(modules))
    first = fingerprint(folder)
    (folder / "checkpoint-5").mkdir()
    (folder / "checkpoint-5" / "trainer_state.json").write_text("{}")
    assert fingerprint(folder) == first
    edit_json(deep / "pool" / "config.json", pooling_mode="cls")
    assert fingerprint(folder) != first


LeaveOut = Callable[[torch.nn.Module], torch.nn.Module]


@pytest.mark.parametrize("left_out", ["Dense", "LayerNorm", "Normalize"])
def test_a_wrapper_that_leaves_a_module_out_is_refused(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_out: str
) -> None:
    modules = (lambda: Pooling(WIDTH, "mean"), lambda: Dense(WIDTH, WIDTH), lambda: LayerNorm(WIDTH), Normalize)
    folder = save_embedder(tmp_path / "m", *modules)
    static: LeaveOut = sentence_embedding._with_static_pooling

    def leave_out(module: torch.nn.Module) -> torch.nn.Module:
        return torch.nn.Identity() if type(module).__name__ == left_out else static(module)

    monkeypatch.setattr(sentence_embedding, "_with_static_pooling", leave_out)
    with pytest.raises(CompileError, match=r"m: graph 1x16: outputs differ from the reference model's by"):
        open_model(project, folder)


def test_a_wrapper_that_gives_other_sizes_is_refused(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_embedder(tmp_path / "m", lambda: Pooling(WIDTH, "mean"), lambda: Dense(WIDTH, 16), truncate_dim=8)
    monkeypatch.setattr(EmbeddingModel, "forward", _whole)
    with pytest.raises(CompileError, match=r"has the shape \(16,\), the reference model's \(8,\)"):
        open_model(project, folder)


def _whole(model: Any, *args: torch.Tensor) -> tuple[torch.Tensor]:
    """Without the cut to fewer numbers."""
    features = dict(zip(model.inputs, args, strict=True))
    for step in model.steps:
        features = step(features)
    return (features["sentence_embedding"],)


def replace_type(folder: Path, number: int, name: str) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    modules[number]["type"] = name
    (folder / "modules.json").write_text(json.dumps(modules))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my_package.Whitening", r"module 1 of modules\.json, my_package\.Whitening, is not of sentence-transformers"),
        (
            "sentence_transformers.models.CNN",
            r"sentence_transformers\.models\.CNN, cannot be compiled; for the task sentence-embedding, Marina compiles",
        ),
        ("sentence_transformersx.Pooling", "is not of sentence-transformers: code of a model is not run"),
    ],
)
def test_modules_that_cannot_be_compiled_are_named(project: Project, tmp_path: Path, name: str, message: str) -> None:
    folder = save_embedder(tmp_path / "m")
    replace_type(folder, 1, name)
    with pytest.raises(SourceError, match=message):
        open_model(project, folder)


def test_pickled_weights_of_a_module_are_not_read(project: Project, tmp_path: Path) -> None:
    folder = save_embedder(tmp_path / "m", lambda: Pooling(WIDTH, "mean"), lambda: Dense(WIDTH, 16))
    (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(SourceError, match=r"modules\.Dense, has pickled weights, which are not read|Dense.*pickled"):
        open_model(project, folder)


def test_an_activation_that_the_library_would_replace_is_refused(project: Project, tmp_path: Path) -> None:
    folder = save_embedder(tmp_path / "m", lambda: Pooling(WIDTH, "mean"), lambda: Dense(WIDTH, 16))
    edit_json(folder / "2_Dense" / "config.json", activation_function="my_package.Swish")
    with pytest.raises(SourceError, match=r"Dense, has the activation my_package\.Swish, for which the library would"):
        open_model(project, folder)


def test_modules_elsewhere_are_not_read(project: Project, tmp_path: Path) -> None:
    folder = save_embedder(tmp_path / "m")
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["path"] = "../m-encoder"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(SourceError, match="names a folder outside of the model's"):
        open_model(project, folder)


def test_an_encoder_without_all_its_weights_is_refused(project: Project, tmp_path: Path) -> None:
    folder = save_embedder(tmp_path / "m")
    edit_json(folder / "config.json", num_hidden_layers=3)
    with pytest.raises(SourceError, match=r"has no weights for encoder\.layer\.2\..* \(16 missing\)"):
        open_model(project, folder)
