"""Loads embedding models with sentence-transformers itself, whose modules run in their original order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from handlers.worker.archive.signature import TOKENIZER_INPUTS, Prompt
from marina.compiler.hugging_face import read_modules
from marina.compiler.hugging_face.folder import HuggingFaceFolder
from marina.compiler.hugging_face.loading import (
    check_finite,
    check_tokenizer_files,
    check_vocabulary,
    check_weights,
    disable_torch_compile,
    source_errors,
)
from marina.errors import SourceError
from marina.files import read_object
from marina.spec import Spec

LIBRARY = "sentence_transformers"
# the library's modules that can be compiled; Dropout does nothing outside of training
MODULES = ("Transformer", "Pooling", "Dense", "LayerNorm", "Normalize", "Dropout")
EMBEDDING = "sentence_embedding"  # the feature in which modules store the embedding of a text
POOLING = {"mean": "mean", "cls": "cls", "max": "max", "last": "lasttoken"}


def load_embedder(source: HuggingFaceFolder, attention: str | None = None) -> Any:
    """The `SentenceTransformer` in a folder, with the pooling and the normalisation of the spec if it sets them.

    A folder without sentence-transformers files is read as the library would: an encoder with mean pooling.

    Args:
        source: the model's folder.
        attention: the attention implementation; None for transformers' own choice.

    Raises:
        SourceError: the model cannot be loaded, or has parts that cannot be compiled.
    """
    check_modules(source)
    model = read_model(source, "SentenceTransformer", attention)
    with source_errors(source.spec, "sentence-transformers"):
        model = _with_spec_modules(model, source.spec).eval()
    check_model(source, model, "Pooling")
    return model


def read_model(source: HuggingFaceFolder, kind: str, attention: str | None) -> Any:
    """The model in a folder, as a class of sentence-transformers; SourceError if the library cannot load it.

    Args:
        source: the model's folder.
        kind: the name of the class.
        attention: the attention implementation; None for transformers' own choice.
    """
    attention_option = {} if attention is None else {"attn_implementation": attention}
    with source_errors(source.spec, "sentence-transformers"):
        import sentence_transformers

        model = getattr(sentence_transformers, kind)(
            str(source.folder),
            device="cpu",
            model_kwargs={"use_safetensors": True, **attention_option},
            local_files_only=True,
            trust_remote_code=False,
        )
        disable_torch_compile(model[0].auto_model.config)
    return model.eval()


def check_model(source: HuggingFaceFolder, model: Any, pooling: str, fills: bool = False) -> None:
    """Refuse a loaded model that cannot be compiled.

    Args:
        source: the model's folder.
        model: from `read_model`.
        pooling: the library's name of the module that makes one vector from those of the tokens, or chooses among them.
        fills: whether it may fill queries up.

    Raises:
        SourceError: the message names what cannot be compiled.
    """
    check_tokenizer_files(source.encoder(), model.tokenizer)
    check_finite(source, model)
    check_vocabulary(source, model[0].auto_model, model.tokenizer)
    with source_errors(source.spec, "sentence-transformers"):
        _check_features(source, model, pooling, fills)


def check_encoder(source: HuggingFaceFolder, encoder: Any, encoder_only: bool = True) -> None:
    """Refuse an encoder, with a head unless `encoder_only`, if some of its weights were randomly initialised.

    sentence-transformers does not report missing weights, so transformers loads the encoder again. SourceError names
    a weight.
    """
    with source_errors(source.spec, "transformers"):
        _, loading = type(encoder).from_pretrained(
            source.encoder().folder,
            config=encoder.config,
            use_safetensors=True,
            output_loading_info=True,
            local_files_only=True,
            trust_remote_code=False,
        )
    check_weights(source, loading["missing_keys"], encoder_only)


def check_modules(source: HuggingFaceFolder, compiled: Sequence[str] = MODULES, alias: str = f"{LIBRARY}.") -> None:
    """Refuse modules that are not the library's, or that cannot be compiled, before any of them is loaded.

    Args:
        source: the model's folder.
        compiled: the library's names of those that can be compiled; the model begins with the first.
        alias: begins the types of another library's modules, which this one reads as its own.

    Raises:
        SourceError: a module is refused; the message names it.
    """
    for number, module in enumerate(read_modules(source.folder)):
        package, _, name = module["type"].rpartition(".")
        where = f"{source.title}: module {number} of modules.json, {module['type']},"
        if package.partition(".")[0] != LIBRARY and not package.startswith(alias):
            raise SourceError(f"{where} is not of sentence-transformers: code of a model is not run")
        # the library's name for a Transformer with a masked language model, until its release 5.4
        name = "Transformer" if name == "MLMTransformer" else name
        if name not in compiled or (name == compiled[0]) != (number == 0):
            raise SourceError(
                f"{where} cannot be compiled; for the task {source.spec.task}, Marina compiles a {compiled[0]}, and "
                f"after it {', '.join(compiled[1:])}"
            )
        module_folder = source.folder / module["path"]
        if any(module_folder.glob("*.bin")) and not any(module_folder.glob("*.safetensors")):
            raise SourceError(
                f"{where} has pickled weights, which are not read; load the model once with sentence-transformers and "
                "write it with save_pretrained"
            )
        config = read_object(module_folder / "config.json") or {}
        activation = str(config.get("activation_function", "torch."))
        if name == "Dense" and not activation.startswith("torch."):
            raise SourceError(f"{where} has the activation {activation}, for which the library would take another")


def pooling_of(source: HuggingFaceFolder) -> str:
    """The pooling for heads on an encoder: from the spec, else from the folder's own files, else the mean."""
    if source.spec.pooling:
        return POOLING[source.spec.pooling]
    for module in read_modules(source.folder):
        if module["type"].endswith(".Pooling"):
            with source_errors(source.spec, "sentence-transformers"):
                from sentence_transformers.sentence_transformer.modules import Pooling

                mode = Pooling.load(str(source.folder), subfolder=module["path"]).pooling_mode
            if mode not in POOLING.values():
                raise SourceError(f"{source.title}: heads cannot be put on its pooling {mode}; set pooling")
            return str(mode)
    return "mean"


def read_prompts(model: Any) -> dict[str, Prompt]:
    """A model's prompts by name, with the number of tokens in a row that its pooling excludes for each."""
    excludes_prompt = any(getattr(module, "include_prompt", True) is False for module in model)
    return {
        name: Prompt(text, int(model.preprocess(["x"], prompt=text).get("prompt_length", 0)) if excludes_prompt else 0)
        for name, text in model.prompts.items()
    }


def is_unit_length(model: Any, feature: str = EMBEDDING) -> bool:
    """Whether the last step scales the vectors of a feature to length 1."""
    last_module = [module for module in model if type(module).__name__ not in ("Dropout", "MultiVectorMask")][-1]
    names = (getattr(last_module, f"module_{end}_name", None) for end in ("output", "input"))
    output = next(filter(None, names), EMBEDDING)
    is_last = type(last_module).__name__ == "Normalize" and output == feature
    return is_last and getattr(model, "truncate_dim", None) is None


def dimensions_of(model: Any, spec: Spec) -> tuple[int, ...]:
    """The sizes that embeddings may have: those that the spec or the model's config.json names, and the model's own.

    `matryoshka_dimensions` is the field that vLLM reads too. Its sizes above the model's own are left out, as the
    folder may cut embeddings itself.

    Raises:
        SourceError: a size of the spec is larger than the model's own.
    """
    width = int(model.get_embedding_dimension())
    if spec.dimensions is None:
        named = getattr(model[0].auto_model.config, "matryoshka_dimensions", None)
        sizes = [size for size in named if type(size) is int and 0 < size < width] if isinstance(named, list) else []
        return (*sorted(set(sizes)), width)
    if max(spec.dimensions, default=0) > width:
        raise SourceError(
            f"{spec.name}: dimensions {max(spec.dimensions)}: the model's embeddings have {width}", "name smaller sizes"
        )
    return tuple(sorted({*spec.dimensions, width}))


def _with_spec_modules(model: Any, spec: Spec) -> Any:
    """The model with the spec's pooling and normalisation."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    modules = list(model)
    if spec.pooling:
        width = modules[0].get_embedding_dimension()
        modules = [
            Pooling(width, POOLING[spec.pooling], include_prompt=module.include_prompt)
            if type(module).__name__ == "Pooling"
            else module
            for module in modules
        ]
    if spec.normalize is not None:
        modules = [module for module in modules if type(module).__name__ != "Normalize"]
        modules += [Normalize()] if spec.normalize else []
    if modules == list(model):
        return model
    return SentenceTransformer(
        modules=modules,
        device="cpu",
        prompts=model.prompts,
        default_prompt_name=model.default_prompt_name,
        truncate_dim=model.truncate_dim,
        local_files_only=True,
        trust_remote_code=False,
    )


def _check_features(source: HuggingFaceFolder, model: Any, pooling: str, fills: bool) -> None:
    """Refuse models that read more than the tokens of a text, or read tokens in a way that a graph cannot."""
    features = model.preprocess(["x"])
    tensors: Sequence[str] = [name for name, value in features.items() if hasattr(value, "shape")]
    if features.get("modality", "text") != "text" or not set(tensors) <= set(TOKENIZER_INPUTS):
        raise SourceError(
            f"{source.title} does not read a text by its tokens alone: sentence-transformers gives "
            f"it {', '.join(tensors)} as {features.get('modality', 'text')}"
        )
    if getattr(model[0], "processing_kwargs", None) or (getattr(model[0], "query_expansion", None) and not fills):
        raise SourceError(f"{source.title} sets processing_kwargs or query_expansion, which cannot be compiled")
    if not any(type(module).__name__ == pooling for module in model):
        raise SourceError(f"{source.title} pools no token vectors; its modules lack a {pooling}")
