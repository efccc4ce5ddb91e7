"""Multi-vector embeddings: a `MultiVectorEncoder` such as ColBERT; agreement is the cosine of each token's vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from handlers.worker.archive.signature import DOCUMENT, QUERY, ROLE_PROMPTS, Filling, Role, Signature, hides_filling
from handlers.worker.members.golden import GoldenRow
from handlers.worker.tokens.tokenizer import RowTokenizer
from handlers.worker.values import Instance, Outputs, Row
from marina.compiler.hugging_face import encoder_folder, read_modules
from marina.compiler.hugging_face.architecture import architectures_of
from marina.compiler.hugging_face.embedder import (
    check_encoder,
    check_model,
    check_modules,
    is_unit_length,
    read_model,
)
from marina.compiler.hugging_face.folder import HuggingFaceFolder
from marina.compiler.reference import ExactOutputs, Float64Runner, ReferenceRow
from marina.compiler.tasks.agreement import cosines_of
from marina.compiler.tasks.base import Agreement, TaskExporter
from marina.compiler.tasks.export import export_embedder, inputs_for_pooling, padding_position_of
from marina.compiler.tasks.outputs import OutputRule
from marina.engines.model import ExportedModel
from marina.errors import SourceError
from marina.files import read_object

CONFIG_FILE = "config_sentence_transformers.json"
MASK = "MultiVectorMask"
MODULES = ("Transformer", "Dense", "Normalize", MASK)
PYLATE = "pylate."  # begins the types of PyLate's modules, which the library reads as its own
METADATA_FILE = "artifact.metadata"  # of ColBERT's own code
LENGTHS = ("query_length", "document_length", "query_maxlen", "doc_maxlen")
ANY_LENGTH = 1_000_000
KINDS = ("MultiVectorEncoder", "ColBERT")  # of the library, and of PyLate
STANFORD = "HF_ColBERT"
VECTORS = "token_embeddings"  # the feature with a vector for each token


def recognises(folder: Path, config: Mapping[str, Any]) -> bool:
    """Whether sentence-transformers, PyLate or ColBERT's own code wrote the folder."""
    fields = read_object(folder / CONFIG_FILE) or {}
    types = [module["type"] for module in read_modules(folder)]
    named = any(name.endswith(f".{MASK}") or name.startswith(PYLATE) for name in types)
    return (
        named or fields.get("model_type") in KINDS or "query_prefix" in fields or STANFORD in architectures_of(config)
    )


def library_length(folder: Path) -> int | None:
    """The tokens of the longest queries and documents that the library reads, as the folder's files say."""
    encoder = encoder_folder(folder)
    files = (folder / CONFIG_FILE, encoder / "sentence_bert_config.json", folder / METADATA_FILE)
    fields = {name: value for path in files for name, value in (read_object(path) or {}).items()}
    expansion = fields.get("query_expansion")
    lengths = [expansion.get("length") if isinstance(expansion, dict) else None, *map(fields.get, LENGTHS)]
    return max((length for length in lengths if isinstance(length, int) and length > 0), default=None)


def check(source: HuggingFaceFolder) -> None:
    """Refuse modules that cannot be compiled, and a pickle that the library would read; see `check_modules`."""
    check_modules(source, MODULES, PYLATE)
    weights = source.folder / "model.safetensors"
    if not weights.is_file() and not read_modules(source.folder):
        raise SourceError(f"{source.title} has no {weights.name}, which has the projection of tokens")


def load_multi_vector_encoder(source: HuggingFaceFolder, attention: str | None = None) -> Any:
    """The `MultiVectorEncoder` in a folder; SourceError if it cannot be compiled."""
    import sentence_transformers

    if not hasattr(sentence_transformers, "MultiVectorEncoder"):
        raise SourceError(
            f"{source.spec.name}: the task {source.spec.task} needs sentence-transformers 6, and release "
            f"{sentence_transformers.__version__} is installed",
            "compile the model where a newer release runs",
        )
    check(source)
    model = read_model(source, "MultiVectorEncoder", attention)
    check_model(source, model, MASK, fills=True)
    if sum(type(module).__name__ == MASK for module in model) != 1:
        raise SourceError(f"{source.title} has several modules {MASK}")
    if model[0].query_expansion is not None and model.tokenizer.padding_side != "right":
        raise SourceError(f"{source.title} fills queries up on the left, which cannot be compiled")
    if any(getattr(module, "keep_only_token_ids", None) for module in model):
        raise SourceError(f"{source.title} keeps some tokens of documents only, as models of images do")
    return model


def export(source: HuggingFaceFolder, attention: str | None) -> ExportedModel:
    model = load_multi_vector_encoder(source, attention)
    encoder, tokenizer = model[0].auto_model, model.tokenizer
    check_encoder(source, encoder)
    inputs = inputs_for_pooling(encoder, tokenizer)
    roles = roles_of(model)
    return export_embedder(
        model,
        [module for module in model if type(module).__name__ != MASK],
        inputs,
        "vectors",
        feature=VECTORS,
        positions=positions_without_tokenizer(encoder),
        unit_length=is_unit_length(model, VECTORS),
        per_token=True,
        defaults={"similarity": model.similarity_fn_name},
        roles=roles,
        unpackable="queries are padded with expansion tokens that are not attended to",
        **({"pack": None} if hides_filling(roles) else {}),
    )


def positions_without_tokenizer(encoder: Any) -> int | None:
    """The longest sequence that the encoder's positions allow; the lengths of queries and documents override the
    tokenizer's."""
    positions, padding = getattr(encoder.config, "max_position_embeddings", None), padding_position_of(encoder)
    return positions - (0 if padding is None else padding + 1) if isinstance(positions, int) and positions > 0 else None


def roles_of(model: Any) -> dict[str, Role]:
    """How the model reads queries and documents."""
    transformer = model[0]
    (mask,) = (module for module in model if type(module).__name__ == MASK)
    skipped = () if mask._skiplist_ids is None else tuple(mask._skiplist_ids.tolist())
    lengths = {QUERY: transformer.query_length, DOCUMENT: transformer.document_length}
    roles = {}
    for name in (QUERY, DOCUMENT):
        prompts = (prompt for prompt in ROLE_PROMPTS[name] if prompt in model.prompts)
        filling = filling_of(model) if name == QUERY else None
        length = lengths[name] or model.max_seq_length or ANY_LENGTH
        if filling is not None:
            length = filling.length if filling.exact else max(length, filling.length)
        roles[name] = Role(
            next(prompts, model.default_prompt_name), length, filling, skipped if name in mask.skiplist_tasks else ()
        )
    return roles


def filling_of(model: Any) -> Filling | None:
    """How the model fills queries up; the library calls it query expansion."""
    expansion, tokenizer = model[0].query_expansion, model.tokenizer
    if expansion is None:
        return None
    token = (
        tokenizer.convert_tokens_to_ids(expansion["token"])
        if expansion["token"] is not None
        else next(number for number in (tokenizer.mask_token_id, tokenizer.eos_token_id) if number is not None)
    )
    return Filling(int(token), expansion["length"], expansion["strategy"] == "fixed", expansion["attend"])


class _Reference:
    """A `MultiVectorEncoder`, called through `encode`; the role of a text is that of its instance."""

    prompts: tuple[str | None, ...] = (None,)

    def __init__(self, source: HuggingFaceFolder) -> None:
        self._name, self._model = source.spec.name, load_multi_vector_encoder(source)
        self._run_in_float64 = Float64Runner(self._model)
        self._roles = roles_of(self._model)

    def read(self, instance: Instance, prompt: str | None) -> ReferenceRow:
        role = instance.role or DOCUMENT
        text = self._prompt(role) + instance.text
        expected = list(self._model.tokenizer(text, truncation=False, verbose=False)["input_ids"])
        tokens = len(expected)
        if tokens > self._roles[role].max_length:  # the library would cut it
            return ReferenceRow(Instance(text), Row([], []))
        features = self._model.preprocess([instance.text], prompt=self._prompt(role), task=role)
        ids = features["input_ids"][0].tolist()
        if ids[:tokens] != expected:
            raise SourceError(f"{self._name}: sentence-transformers reads other tokens than its tokenizer makes")
        type_ids = features["token_type_ids"][0].tolist() if "token_type_ids" in features else [0] * len(ids)
        return ReferenceRow(Instance(text), Row(ids, type_ids, filled=len(ids) - tokens))

    def answer(self, instance: Instance, prompt: str | None) -> ExactOutputs:
        role = instance.role or DOCUMENT
        options = {"prompt": self._prompt(role), "task": role, "output_value": None, "show_progress_bar": False}
        (features,) = self._run_in_float64(lambda: self._model.encode([instance.text], **options))
        return [np.asarray(features[VECTORS].cpu(), dtype=np.float64)]

    def _prompt(self, role: str) -> str:
        name = self._roles[role].prompt
        return (self._model.prompts[name] or "") if name is not None else ""


def agree(
    rows: Sequence[GoldenRow], outputs: Sequence[Outputs], _: Signature, __: RowTokenizer, ___: Mapping[str, Any]
) -> Agreement:
    """The mean cosine between the vectors of tokens and the reference's."""
    expected = np.concatenate([row.outputs[0] for row in rows])
    actual = np.concatenate([output[0][: len(row.row.ids)] for row, output in zip(rows, outputs, strict=True)])
    return Agreement("mean cosine", float(cosines_of(expected, actual).mean()), len(rows), "cosine")


EXPORTER = TaskExporter(
    export, _Reference, agree, OutputRule(("vectors",), dims=3, per_token=True), recognises, None, check, library_length
)
