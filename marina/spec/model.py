"""Model specs: `models/<name>.yaml`, read and checked. Each field is documented where it is defined."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, ValidationInfo, create_model, field_validator, model_validator

from handlers.worker.errors import RequestError
from handlers.worker.request.parameters import read_parameters
from handlers.worker.request.schema import Fields, required_fields
from handlers.worker.tasks import TASKS
from marina.engines import DEFAULT, engine_of, engines
from marina.engines.values import EngineFields, NoOptions
from marina.errors import SpecError
from marina.fields import AnyFields, fault_message, similar_field
from marina.spec.sections import HeadSpec, OutputSpec, Parity, Serving, Shapes, Source
from marina.spec.served import ArchiveSpec, check_name, read_yaml

Dtype = Literal["int64", "int32", "float32", "float16", "bool"]
TORCHSCRIPT_FIELDS = ("tokenizer", "preprocess", "fields", "inputs", "outputs")  # fields for source.torchscript


class Spec(ArchiveSpec):
    """One model: where it comes from, what it does, how it is compiled and served."""

    task: str
    """What the model answers: sentence-embedding, sparse-embedding, multi-vector-embedding, text-classification,
    zero-shot-classification, reranking, token-classification, question-answering, or tensors, which are the outputs
    of a TorchScript model as they are."""

    source: Source
    """Where the weights come from."""

    tokenizer: str | None = None
    """source.torchscript: folder of the tokenizer, with `tokenizer.json`, relative to the project."""

    preprocess: str | None = None
    """source.torchscript: instead of a tokenizer, a TorchScript file whose forward takes texts and returns the model's
    inputs, relative to the project."""

    fields: tuple[str, ...] = ("text",)
    """preprocess: the fields of an instance, in the order of its arguments."""

    inputs: dict[str, Dtype] | None = None
    """source.torchscript: the model's inputs in order, each with its dtype. From a tokenizer come input_ids,
    attention_mask, token_type_ids, position_ids (0, 1, 2, ...) and valid_length (the number of tokens). Default: the
    names of the arguments of its forward, in int64."""

    outputs: dict[str, OutputSpec] | None = None
    """source.torchscript: the model's outputs in order."""

    engine: str = DEFAULT
    """What compiles and runs the graphs: on the CPU openvino or torchscript, on Inf1 neuron, on Inf2
    and Trn1 neuronx; `--engine` overrides it."""

    precision: Literal["f32", "bf16", "int8", "auto"] = "f32"
    """Number format of the computation. The engine openvino also has bf16 and int8; int8 needs `examples`
    for calibration. Their answers differ slightly from the original model's, within what `parity`
    allows. auto tries f32, bf16 where the processor has instructions for it, and int8 if there are examples,
    and keeps the fastest that passes.
    Neuron engines set theirs in `neuron` or `neuronx`."""

    shapes: Shapes = Shapes()
    """The shapes to compile."""

    memory_mb: int | None = Field(default=None, ge=1)
    """The most MB that a worker may take with the host direct: `marina archive` fails if the worker that it measures
    takes more, and the choice of shapes keeps to it, by an estimate. A bundle's worker may take what its models may."""

    long_text: Literal["truncate", "reject", "window"] = "truncate"
    """What to do with a text longer than the largest shape: truncate it, reject the request, or read the
    text in overlapping windows (token-classification and question-answering). Default: window for
    question-answering, truncate for other tasks."""

    parameters: AnyFields = Field(default_factory=dict)
    """Defaults for request parameters, where they differ from the task's, for example
    `aggregation_strategy: simple`."""

    mode: Literal["core-per-worker", "pipeline", "data-parallel"] = "core-per-worker"
    """How a worker of a Neuron engine uses its core group. core-per-worker: one core with every graph.
    pipeline (Inf1): each graph is spread over the group, and several calls are in flight.
    data-parallel: every core has every graph, and the rows of a call are divided among the cores,
    which answers a batch fastest. On CPU engines, a graph uses one thread per core of its group."""

    pooling: Literal["mean", "cls", "max", "last"] | None = None
    """sentence-embedding and heads: how token vectors are pooled. Default: as the model's own
    sentence-transformers files say, else the mean."""

    normalize: bool | None = None
    """sentence-embedding: scale to unit length. Default: as the model's own files say, else no."""

    dimensions: list[Annotated[int, Field(ge=1)]] | None = None
    """sentence-embedding: the sizes that requests may cut embeddings to, if the model was trained for it
    (Matryoshka). Default: `matryoshka_dimensions` of the model's config.json, else none."""

    ranges: str | None = None
    """sentence-embedding: a file with the least and the greatest value of every place of your embeddings, relative to
    the project: an array of shape (2, width), as numpy writes it. Requests for `int8` or `uint8` need it."""

    heads: dict[str, HeadSpec] | None = None
    """text-classification: several heads on one encoder. The source contains the encoder and
    `heads.safetensors` with NAME.weight (labels, width) and NAME.bias (labels) of each head. A head
    reads the pooled token vectors. The answer has one entry per head."""

    examples: str | None = None
    """A file of real texts, relative to the project: CSV or JSON lines with the task's fields (`text`
    and `text_pair`, or `question` and `context`). Graphs are compared on them, in addition
    to a built-in set. int8 is calibrated on one half and judged on the other."""

    parity: Parity = Parity()
    """How closely a graph must match the original model."""

    serving: Serving = Serving()
    """How the model is served."""

    @field_validator("task", "engine", mode="before")
    @classmethod
    def _check_choice(cls, value: Any, info: ValidationInfo) -> Any:
        choices = TASKS if info.field_name == "task" else engines()
        if value not in list(choices):
            *first_choices, last_choice = (f"{name!r}" for name in choices)
            raise ValueError(f"must be {', '.join(first_choices)} or {last_choice}")
        return value

    @field_validator("heads")
    @classmethod
    def _check_head_names(cls, heads: dict[str, HeadSpec] | None) -> dict[str, HeadSpec] | None:
        for name in heads or {}:
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name == "logits":
                raise ValueError(f"{name!r} cannot name a head; use letters, digits and '_', and not 'logits'")
        return heads

    @model_validator(mode="before")
    @classmethod
    def _default_long_text(cls, fields: Any) -> Any:
        task = TASKS.get(str(fields.get("task"))) if isinstance(fields, dict) else None
        return {"long_text": task.long_text, **fields} if task else fields

    @model_validator(mode="after")
    def _check_torchscript_fields(self) -> Spec:
        given_fields = [name for name in TORCHSCRIPT_FIELDS if name in self.model_fields_set]
        if not self.source.torchscript:
            if given_fields:
                raise ValueError(f"{given_fields[0]} belongs to source.torchscript")
            if TASKS[self.task].scripts_only:
                raise ValueError(f"the task {self.task} belongs to source.torchscript")
            return self
        if TASKS[self.task].folders_only:
            raise ValueError(f"the task {self.task} belongs to Hugging Face folders")
        if (self.tokenizer is None) == (self.preprocess is None):
            raise ValueError("a TorchScript model needs either tokenizer or preprocess")
        if self.preprocess is None and "fields" in given_fields:
            raise ValueError("fields belongs to preprocess")
        if not self.fields or len(set(self.fields)) < len(self.fields):
            raise ValueError("fields must be distinct names")
        if self.preprocess and TASKS[self.task].offsets:
            raise ValueError(f"the task {self.task} answers with places in the text, and needs a tokenizer")
        for name in ("heads", "pooling"):
            if getattr(self, name):
                raise ValueError(f"{name} belongs to Hugging Face folders; a TorchScript model has it in outputs")
        if self.dimensions is not None or self.ranges is not None:
            raise ValueError("dimensions and ranges belong to Hugging Face folders")
        if not self.outputs:
            raise ValueError("a TorchScript model needs outputs, by name and in order")
        return self

    @model_validator(mode="after")
    def _check_combination(self) -> Spec:
        task = TASKS[self.task]
        task_fields = {name for other in TASKS.values() for name in other.spec_fields}
        foreign_fields = task_fields - task.spec_fields - ({"pooling"} if self.heads else set())
        for name in sorted(foreign_fields):
            if getattr(self, name) not in (None, {}):
                supporting_tasks = " and ".join(
                    candidate.name for candidate in TASKS.values() if name in candidate.spec_fields
                )
                verb = "belong" if name.endswith("s") else "belongs"
                raise ValueError(f"{name} {verb} to the task {supporting_tasks}{', or to heads' * (name == 'pooling')}")
        if task.vectors and self.parameters.get("precision") in ("int8", "uint8") and self.ranges is None:
            raise ValueError("parameters: precision int8 and uint8 need ranges")
        if self.long_text == "window" and not task.offsets:
            supporting_tasks = " and ".join(candidate.name for candidate in TASKS.values() if candidate.offsets)
            raise ValueError(f"long_text: window belongs to the tasks {supporting_tasks}")
        for name, value in (("precision", self.precision), ("mode", self.mode)):
            supporting_engines = [engine.name for engine in engines().values() if value in getattr(engine, f"{name}s")]
            if self.engine not in supporting_engines:
                plural = "s" * (len(supporting_engines) > 1)
                raise ValueError(f"{name}: {value} belongs to the engine{plural} {' and '.join(supporting_engines)}")
        engine = engine_of(self.engine)
        engine.check(self.for_engine)
        refusal = engine.refuses_packed(self.for_engine)
        if refusal and any(shape.packed for shape in self.shapes.listed()):
            raise ValueError(refusal)
        try:
            task.check(read_parameters({**task.example_parameters, **self.parameters}, task.parameters, {}))
        except RequestError as error:
            raise ValueError(f"parameters: {error}") from None
        return self

    @property
    def instance_fields(self) -> Fields:
        """The fields of an instance: the task's, or those of the preprocessing module."""
        return required_fields(self.fields) if self.preprocess else TASKS[self.task].fields

    @property
    def for_engine(self) -> EngineFields:
        """The fields that are passed to the engine."""
        return EngineFields(
            precision=self.precision,
            names_precision="precision" in self.model_fields_set,
            names_examples=self.examples is not None,
            mode=self.mode,
            core_groups=self.core_groups,
            options=getattr(self, self.engine, None),
        )


def make_spec(fields: Mapping[str, Any]) -> Spec:
    """Create a spec from its fields, in the format of the file; pydantic's ValidationError if they are invalid."""
    return spec_model().model_validate(fields)


@cache
def spec_model() -> type[Spec]:
    """`Spec` with a section for each engine that has options."""
    options = {name: engine.options for name, engine in engines().items() if engine.options is not NoOptions}
    sections: dict[str, Any] = {name: (section, section()) for name, section in options.items()}
    return create_model("Spec", __base__=Spec, **sections)


def read_spec(path: Path, overrides: dict[str, Any] | None = None) -> Spec:
    """Read one spec.

    Args:
        path: the YAML file.
        overrides: fields to replace, in the format of the file.

    Raises:
        SpecError: the spec is invalid; the message names the file, the field and the problem.
    """
    fields = read_yaml(path)
    if "bundle" in fields:
        raise SpecError(f"{path} is a bundle, and this takes a single model; name one of {fields['bundle']}")
    try:
        spec = make_spec({**fields, **(overrides or {})})
    except ValidationError as error:
        raise SpecError(f"{path}: {explain(error)}") from None
    check_name(spec, path)
    return spec


def explain(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """All errors on one line, each with the field, the problem and the given value."""
    faults = []
    for fault in error.errors():
        field = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            suggestion = similar_field(model or spec_model(), fault["loc"])
            hint = f", perhaps to {suggestion}" if suggestion else ""
            faults.append(f"{field}: unknown field; remove it or correct its name{hint}")
        elif fault["type"] == "missing":
            faults.append(f"{field}: missing")
        else:
            given_value = "" if isinstance(fault["input"], dict) else f" (given: {fault['input']!r})"
            faults.append(f"{field or 'spec'}: {fault_message(fault)}{given_value}")
    return "; ".join(faults)
