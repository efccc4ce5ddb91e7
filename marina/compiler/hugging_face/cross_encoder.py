"""Reads how sentence-transformers' CrossEncoder, which wrote a folder, turns logits into scores."""

from __future__ import annotations

from pathlib import Path

from marina.compiler.hugging_face import read_modules
from marina.compiler.hugging_face.folder import HuggingFaceFolder
from marina.compiler.hugging_face.loading import source_errors
from marina.errors import SourceError
from marina.files import read_object

# fields that CrossEncoder writes: before release 4, from 4 on, and from 6 on
MARKER_FIELDS = {
    "config.json": ("sbert_ce_default_activation_function", "sentence_transformers"),
    "config_sentence_transformers.json": ("activation_fn",),
}
ACTIVATIONS = {"Identity": "none", "Sigmoid": "sigmoid"}


def is_cross_encoder(folder: Path) -> bool:
    """Whether sentence-transformers' CrossEncoder has written a folder."""
    return any(
        marker in (read_object(folder / file) or {}) for file, markers in MARKER_FIELDS.items() for marker in markers
    )


def cross_encoder_activation(source: HuggingFaceFolder) -> str | None:
    """The activation of the scores of `CrossEncoder.predict`; None for a folder that CrossEncoder has not written.

    It differs from transformers' pipeline: several labels have no activation, and one label has the saved one.

    Raises:
        SourceError: the library scores in a way that Marina has not.
    """
    if not is_cross_encoder(source.folder):
        return None
    where = f"{source.title} is a CrossEncoder of sentence-transformers"
    modules = [module["type"].rpartition(".")[2] for module in read_modules(source.folder)]
    if modules not in ([], ["Transformer"]):
        raise SourceError(f"{where} with the modules {', '.join(modules)}; only a Transformer alone can be compiled")
    with source_errors(source.spec, "sentence-transformers"):
        from sentence_transformers import CrossEncoder

        model = CrossEncoder(
            str(source.folder),
            device="cpu",
            model_kwargs={"use_safetensors": True},
            local_files_only=True,
            trust_remote_code=False,
        )
        activation: str = type(model.activation_fn).__name__
        prompts, default_prompt = getattr(model, "prompts", None) or {}, getattr(model, "default_prompt_name", None)
    if prompts.get(default_prompt):
        raise SourceError(
            f"{where} that puts the prompt {default_prompt!r} before texts, which the task {source.spec.task} does not",
            "set default_prompt_name to null in config_sentence_transformers.json, and send texts with their prompts",
        )
    if activation not in ACTIVATIONS:
        raise SourceError(
            f"{where} with the activation {activation}; only {' and '.join(ACTIVATIONS)} are supported",
            "save it again with activation_fn=torch.nn.Identity(), and apply the function to the scores of answers",
        )
    return ACTIVATIONS[activation]
