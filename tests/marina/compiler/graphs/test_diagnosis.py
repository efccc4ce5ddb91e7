"""Models of odd architectures: each failure is one line with its cause, and a cure where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from marina.compiler import compile_model
from marina.compiler.graphs.diagnosis import reason_of
from marina.errors import MarinaError
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import ENGINES, needs_openvino, no_progress, save_tokenizer, write_spec
from tests.handlers.worker.tasks.architectures import SMALL

SIZES: dict[str, dict[str, Any]] = {
    "ConvBert": {**SMALL, "embedding_size": 32},
    "FNet": {name: SMALL[name] for name in SMALL if name not in ("num_attention_heads", "initializer_range")},
    "Longformer": {**SMALL, "attention_window": [8, 8]},
    "Funnel": {**{"vocab_size": 300, "block_sizes": [1, 1, 1]}, **{"d_model": 32, "n_head": 2, "d_head": 16}},
    "Flaubert": {"vocab_size": 300, "emb_dim": 32, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 72},
    "GPT2": {**{"vocab_size": 300, "n_embd": 32, "n_layer": 2}, **{"n_head": 2, "n_positions": 72, "pad_token_id": 0}},
    "Bart": {
        **{"vocab_size": 300, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 64},
        **{"encoder_attention_heads": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 64},
    },
}


def compile_random(project: Project, folder: Path, name: str, engine: str) -> None:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SIZES[name])
    model = getattr(transformers, f"{name}ForSequenceClassification")(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) * 0.2)
    model.save_pretrained(folder)
    save_tokenizer(folder)
    fields = {"task": "text-classification", "source": {"path": str(folder)}, "shapes": {"exact": ["1x16", "2x48"]}}
    compile_model(read_spec(write_spec(project, "m", engine=engine, **fields)), project, no_progress)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "ConvBert",
            r"m: graph 1x16: outputs differ .* Padding alone changes the answers of the model itself.* no engine",
        ),
        ("FNet", r"m: graph 1x16: outputs differ .* Padding alone changes the answers of the model itself.* no engine"),
        ("Funnel", r"m: the model's own library cannot compute a text of 2 tokens with source"),
        ("Bart", r"m: the engine \w+ cannot take the model: .* The model itself cannot compute the shape 1x16: "),
    ],
)
def test_models_that_no_engine_can_serve(
    project: Project, tmp_path: Path, engine: str, name: str, message: str
) -> None:
    with pytest.raises(MarinaError, match=message) as refused:
        compile_random(project, tmp_path / "w", name, engine)
    assert "\n" not in str(refused.value)
    assert "engine: torchscript" not in str(refused.value)


@pytest.mark.long
@needs_openvino
@pytest.mark.parametrize("name", ["Longformer", "Flaubert"])
def test_models_that_another_engine_takes(project: Project, tmp_path: Path, name: str) -> None:
    """OpenVINO converts one wrongly or not at all; TorchScript is faithful to both."""
    with pytest.raises(MarinaError, match=r"^m: .* The engine torchscript can take it: engine: torchscript") as refused:
        compile_random(project, tmp_path / "w", name, "openvino")
    assert name != "Flaubert" or "the engine openvino cannot take the model: it cannot convert aten::" in str(
        refused.value
    )
    compile_random(project, tmp_path / "w", name, "torchscript")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.skipif(
    "4.53" <= transformers.__version__ < "5",
    reason="these releases make causal masks with vmap, which cannot be traced",
)
def test_a_decoder_needs_no_cache(project: Project, tmp_path: Path, engine: str) -> None:
    compile_random(project, tmp_path / "w", "GPT2", engine)


def test_a_reason_is_the_first_cause_in_one_line() -> None:
    try:
        try:
            raise ValueError("Exception from src/x.cpp:12:\n  the cause  \n more\n even more")
        except ValueError as cause:
            raise RuntimeError("what came of it") from cause
    except RuntimeError as error:
        assert reason_of(error) == "the cause more"
    assert reason_of(KeyError()) == "KeyError"
    assert reason_of(RuntimeError("-- Conversion is failed for: SequenceMark, aten::b, aten::a\n")) == (
        "it cannot convert aten::a, aten::b"
    )
