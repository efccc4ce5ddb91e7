"""What all tests share: a small random model, and projects in folders of their own."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import settings

# a shell starts background jobs, and so perhaps these tests and their children, deaf to Ctrl-C
signal.signal(signal.SIGINT, signal.default_int_handler)
# where tests run side by side each process keeps to a core, or threads of one would wait for those of another; one
# process more than there are cores takes what the others leave, while they wait for servers
if os.environ.get("PYTEST_XDIST_WORKER"):
    cores = sorted(os.sched_getaffinity(0))
    number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    if number < len(cores):
        os.sched_setaffinity(0, {cores[number]})
    else:
        os.environ["OMP_NUM_THREADS"] = "1"
# machines are shared, and a test may take its time
settings.register_profile("marina", deadline=None)
settings.load_profile("marina")
# nothing here may reach a hub
os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from tests.schedule import Schedule

    return Schedule(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("dist", "no") != "no" or hasattr(config, "workerinput"):
        from tests.schedule import by_length

        items.sort(key=lambda item: by_length(item.nodeid))


# cores are leased among these tests alone
os.environ["MARINA_LEASES"] = tempfile.mkdtemp(prefix="marina-leases-")
atexit.register(shutil.rmtree, os.environ["MARINA_LEASES"], ignore_errors=True)

from marina.project import Project, project_beside  # noqa: E402
from tests.shared import Shared, shared_by  # noqa: E402

# the CPU engines that are installed; the stack of Inf1 has no OpenVINO
ENGINES = ("openvino", "torchscript") if importlib.util.find_spec("openvino") else ("torchscript",)
ENGINE = ENGINES[0]
needs_openvino = pytest.mark.skipif("openvino" not in ENGINES, reason="OpenVINO is not installed")

ROOT = Path(__file__).parent.parent
# the demonstration's model of intents, for slow tests: make build/training/ava-intent
TRAINED = ROOT.joinpath("build", "training", "ava-intent")
WORDS = """
change company address download the latest version invoice please send it to our account manager how do i
reset my password wireless mouse black keyboard senior engineer python led a team of five years ok thanks
""".split()  # noqa: SIM905


def save_tokenizer(folder: Path) -> None:
    """Write a small WordPiece tokenizer that covers Latin letters; other scripts are [UNK]."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'()-"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *dict.fromkeys([*letters, *WORDS, *(f"##{c}" for c in letters)])]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = ["input_ids", "token_type_ids", "attention_mask"]
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=names, **special).save_pretrained(folder)


def save_tiny_model(folder: Path, task: str, seed: int = 0, **options: Any) -> Path:
    """Write a two-layer BERT with random weights as an ordinary Hugging Face folder."""
    import torch
    import transformers

    torch.manual_seed(seed)
    sizes = {"vocab_size": 200, "hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 64}
    depth = {"num_hidden_layers": 2, "num_attention_heads": 2, "initializer_range": 0.2}
    nli = dict(enumerate(("contradiction", "neutral", "entailment")))
    heads_options: dict[str, dict[str, Any]] = {
        "reranking": {"num_labels": 1},
        "zero-shot-classification": {"id2label": nli, "label2id": {label: number for number, label in nli.items()}},
    }
    head = heads_options.get(task, {})
    config = transformers.BertConfig(**{**sizes, **depth, **head, **options})
    heads = {
        "sentence-embedding": "Model",
        "token-classification": "ForTokenClassification",
        "question-answering": "ForQuestionAnswering",
        "sparse-embedding": "ForMaskedLM",
    }
    model_class = getattr(transformers, f"Bert{heads.get(task, 'ForSequenceClassification')}")
    model_class(config).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """Folders that all processes of this run share."""
    return shared_by(tmp_path_factory)


@pytest.fixture(scope="session")
def tiny_models(shared: Shared) -> dict[str, Path]:
    """A tiny model's folder for each task; not to be changed."""
    labels = {"id2label": {0: "bad", 1: "fair", 2: "good"}, "label2id": {"bad": 0, "fair": 1, "good": 2}}
    options: dict[str, dict[str, Any]] = {"sentence-embedding": {}, "text-classification": labels}

    def make(folder: Path) -> None:
        for task, given in options.items():
            save_tiny_model(folder / task, task, **given)

    folder = shared.folder("tiny", make)
    return {task: folder / task for task in options}


def make_project(folder: Path) -> Project:
    """An empty project with this repository's configuration."""
    return project_beside(Project(ROOT), folder)


def write_spec(project: Project, name: str, **fields: Any) -> Path:
    """Write a spec; returns its file."""
    path = project.models / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"name": name, "engine": ENGINE, **fields}, sort_keys=False))
    return path


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project")


@pytest.fixture
def add_tiny(project: Project, tiny_models: dict[str, Path]) -> Callable[..., Path]:
    """Adds the spec of a tiny model, with a copy of its weights, to the project."""

    def add(name: str, task: str = "text-classification", **fields: Any) -> Path:
        shutil.copytree(tiny_models[task], project.root / "weights" / name)
        defaults = {"task": task, "source": {"path": f"weights/{name}"}, "shapes": {"exact": ["1x16", "4x64"]}}
        return write_spec(project, name, **{**defaults, **fields})

    return add


def no_progress(what: str, done: int, steps: int) -> None:
    """A progress report that nobody reads."""


def scores(answer: list[dict[str, Any]]) -> dict[str, float]:
    """The scores of a classification's answer by label."""
    return {entry["label"]: entry["score"] for entry in answer}
