"""Compiles a small random model of every architecture for every task, and records what comes of it.

    python -m tests.supported    writes docs/supported.json, from which `make docs` makes the table of docs/models.md

tests/marina/test_supported.py compares that file with what happens.
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import transformers
from rich.progress import track

from docs.made.supported import PACKED, PROVEN
from marina.compiler import compile_model
from marina.errors import MarinaError
from marina.project import Project
from marina.spec import make_spec
from tests.conftest import ROOT, make_project, no_progress
from tests.handlers.worker.tasks.architectures import ARCHITECTURES, SMALL, SUFFIXES, Described, save_model

FILE = ROOT / "docs" / "supported.json"
ENGINES = ("openvino", "torchscript")
SHAPES, PACKED_SHAPES = ["1x16", "4x64"], ["1x16", "2x64p"]
# what refusals are told apart by; the first that a message holds counts
REASONS = (
    "texts that share a row differ",
    "needs every text in a row of its own",
    "rows of",
    "Padding alone changes the answers of the model itself",
    "The model itself cannot compute the shape 1x16",
    "the model's own library cannot compute a text of 2 tokens",
    "the model's own library cannot compute a pair of texts",
    "The model itself, without any engine, is no closer to its reference in float32",
    "Unrecognized configuration class",
    "outputs differ from the reference model's",
    "has no weights for qa_outputs",
)
ROBERTA = {**SMALL, "pad_token_id": 1, "type_vocab_size": 1}
BART = {
    **{"vocab_size": 300, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2},
    **{"decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 72},
    **{"pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 0, "decoder_start_token_id": 2, "forced_eos_token_id": 2},
}
T5 = {"vocab_size": 300, "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "pad_token_id": 1}
DECODER = {**SMALL, "num_key_value_heads": 2, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
# beside those that the answers of `transformers.pipeline` are compared with, as ARCHITECTURES describes them
MORE: dict[str, Described] = {
    "bart": ("Bart", BART, "bytes", False),
    "big-bird": ("BigBird", {**SMALL, "attention_type": "original_full", "sep_token_id": 2}, "unigram", True),
    "canine": ("Canine", {**SMALL, "num_hash_buckets": 64, "local_transformer_stride": 8}, "wordpiece", True),
    "convbert": ("ConvBert", {**SMALL, "embedding_size": 32}, "wordpiece", True),
    "data2vec-text": ("Data2VecText", ROBERTA, "bytes", False),
    "deberta": (
        "Deberta",
        {**SMALL, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "type_vocab_size": 0},
        "bytes",
        True,
    ),
    "ernie": ("Ernie", SMALL, "wordpiece", True),
    "eurobert": ("EuroBert", DECODER, "bytes", False),
    "fnet": ("FNet", {**SMALL, "tpu_short_seq_length": 64}, "unigram", True),
    "funnel": (
        "Funnel",
        {"vocab_size": 300, "block_sizes": [1, 1], "d_model": 32, "n_head": 2, "d_head": 16, "d_inner": 64},
        "wordpiece",
        True,
    ),
    "gemma3-text": ("Gemma3Text", {**DECODER, "head_dim": 16, "sliding_window": 16}, "unigram", False),
    "gpt2": (
        "GPT2",
        {"vocab_size": 300, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 72, "pad_token_id": 1},
        "bytes",
        False,
    ),
    "ibert": ("IBert", ROBERTA, "bytes", False),
    "layoutlm": ("LayoutLM", SMALL, "wordpiece", True),
    "llama": ("Llama", DECODER, "bytes", False),
    "longformer": ("Longformer", {**ROBERTA, "attention_window": [16, 16]}, "bytes", False),
    "luke": ("Luke", {**ROBERTA, "entity_vocab_size": 10, "entity_emb_size": 8}, "bytes", False),
    "megatron-bert": ("MegatronBert", SMALL, "wordpiece", True),
    "mobilebert": ("MobileBert", {**SMALL, "embedding_size": 16, "intra_bottleneck_size": 32}, "wordpiece", True),
    "mra": ("Mra", {**SMALL, "block_per_row": 2}, "bytes", False),
    "nomic-bert": ("NomicBert", SMALL, "wordpiece", True),
    "nystromformer": ("Nystromformer", {**SMALL, "segment_means_seq_len": 64, "num_landmarks": 16}, "unigram", True),
    "qwen2": ("Qwen2", {**DECODER, "vocab_size": 320}, "bytes", False),
    "qwen3": ("Qwen3", {**DECODER, "head_dim": 16}, "bytes", False),
    "rembert": ("RemBert", {**SMALL, "input_embedding_size": 32, "output_embedding_size": 32}, "unigram", True),
    "roberta-prelayernorm": ("RobertaPreLayerNorm", ROBERTA, "bytes", False),
    "roformer": ("RoFormer", {**SMALL, "embedding_size": 32}, "wordpiece", True),
    "squeezebert": ("SqueezeBert", {**SMALL, "embedding_size": 32}, "wordpiece", True),
    "t5-encoder": ("T5Encoder", T5, "unigram", False),
    "xlm-roberta-xl": ("XLMRobertaXL", ROBERTA, "unigram", False),
    "xlnet": (
        "XLNet",
        {"vocab_size": 300, "d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 64, "pad_token_id": 1},
        "unigram",
        True,
    ),
    "yoso": ("Yoso", SMALL, "unigram", True),
}


def outcomes(project: Project, architecture: str, described: Described) -> dict[str, dict[str, str]]:
    """For each task that transformers has a class for: what each engine makes of it.

    Returns:
        By task and engine: "proven", or why compiling was refused.
    """
    found: dict[str, dict[str, str]] = {}
    for task, suffix in SUFFIXES.items():
        if not hasattr(transformers, described[0] + suffix):
            continue
        name = f"{architecture}-{task}"
        folder = save_model(project.root / "weights" / name, architecture, task, described=described)
        found[task] = {engine: _outcome(project, name, task, engine, folder, SHAPES) for engine in ENGINES}
        if PROVEN in found[task].values():
            found[task][PACKED] = _outcome(project, name, task, ENGINES[0], folder, PACKED_SHAPES)
    return found


def _outcome(project: Project, name: str, task: str, engine: str, folder: Path, shapes: list[str]) -> str:
    fields = {"name": name, "task": task, "engine": engine, "source": {"path": str(folder)}}
    spec = make_spec({**fields, "shapes": {"exact": shapes}})
    try:
        compile_model(spec, project, no_progress)
    except MarinaError as error:
        return _reason(str(error).removeprefix(f"{name}: "))
    return PROVEN


def _reason(message: str) -> str:
    """Why a model was refused, without figures and folders, which differ from run to run."""
    for known in REASONS:
        if known in message:
            return known
    return message.partition(":")[0] if len(message.partition(":")[0]) > 20 else message[:100]


def main() -> None:
    """Write the file."""
    wanted = sys.argv[1:]
    every = {**ARCHITECTURES, **MORE}
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder))
        results = {
            name: outcomes(project, name, described)
            for name, described in track(sorted(every.items()))
            if not wanted or name in wanted
        }
    document = {"transformers": version("transformers"), "torch": version("torch"), "models": results}
    text = json.dumps(document, indent=1) + "\n"
    if wanted:
        print(text)
    else:
        FILE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
