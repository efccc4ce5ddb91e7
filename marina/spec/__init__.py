"""Model specs: `models/<name>.yaml`, read and checked. Each field is documented where it is defined."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from handlers.worker.errors import RequestError
from handlers.worker.placement import NEURON_ENGINES
from handlers.worker.placement.groups import parse_core_groups
from handlers.worker.request.parameters import read_parameters
from handlers.worker.tasks import TASKS
from marina.errors import SpecError
from marina.fields import Section
from marina.spec.neuron import NeuronOptions, NeuronxOptions
from marina.spec.sections import HeadSpec, Parity, Serving, Shapes, Source

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class Spec(Section):
    """One model: where it comes from, what it does, how it is compiled and served."""

    name: str
    """Name of the model and its archive; also the file's name."""

    version: str = "1.0"
    """Version of the archive, as TorchServe shows it."""

    task: Literal["sentence-embedding", "text-classification", "token-classification", "question-answering"]
    """What the model answers."""

    source: Source
    """Where the weights come from."""

    engine: Literal["openvino", "torchscript", "neuron", "neuronx"] = "openvino"
    """What compiles and runs the graphs: on the CPU openvino or torchscript, on Inf1 neuron, on Inf2
    and Trn1 neuronx; `--engine` overrides it."""

    precision: Literal["f32", "bf16", "int8", "auto"] = "f32"
    """Number format of the computation. The engine openvino also has bf16, and int8, which needs
    `examples` to be calibrated on; answers then differ a little from the original model's, within
    what `parity` allows. auto measures all that are possible, and keeps the fastest that passes.
    Neuron engines are told theirs in `neuron` or `neuronx`."""

    neuron: NeuronOptions = NeuronOptions()
    """How the engine neuron compiles."""

    neuronx: NeuronxOptions = NeuronxOptions()
    """How the engine neuronx compiles."""

    shapes: Shapes = Shapes()
    """The shapes to compile."""

    long_text: Literal["truncate", "reject", "window"] = "truncate"
    """What to do with a text longer than the largest shape: cut it, answer 400, or, in the tasks
    token-classification and question-answering, read it in windows that overlap. Left out:
    question-answering reads windows, other tasks cut."""

    parameters: dict[str, Any] = Field(default_factory=dict)
    """What requests may set under "parameters", where the model's own default differs from the
    task's, for example `aggregation_strategy: simple`."""

    core_groups: str | None = None
    """Cores of each worker, written as NEURONCORE_GROUP_SIZES is, which overrides it where the server
    runs: "1,1" is two workers with a core each. Left out: on CPU engines one worker that uses every
    core, on Neuron engines one worker with one core."""

    mode: Literal["core-per-worker", "pipeline", "data-parallel"] = "core-per-worker"
    """What a worker of a Neuron engine does with its core group. core-per-worker: it has one core with
    every graph. pipeline (Inf1): each graph spreads over the group, and several calls follow each
    other through it. data-parallel: every core has every graph, and the rows of a call are divided
    among them, which answers a batch soonest. On CPU engines a graph uses its group's cores as
    threads."""

    pooling: Literal["mean", "cls", "max", "last"] | None = None
    """sentence-embedding and heads: how token vectors become one. Left out: as the model's own
    sentence-transformers files say, else the mean."""

    normalize: bool | None = None
    """sentence-embedding: scale to unit length. Left out: as the model's own files say, else no."""

    heads: dict[str, HeadSpec] | None = None
    """text-classification: several heads on one encoder. The source holds the encoder and
    `heads.safetensors` with NAME.weight (labels, width) and NAME.bias (labels) of each head, which
    takes the pooled token vectors. The answer has one entry a head."""

    examples: str | None = None
    """A file of real texts, relative to the project: CSV or JSON lines with the task's fields (`text`
    and `text_pair`, or `question` and `context`). Graphs are checked on them, beside a built-in set;
    int8 is calibrated on one half and judged on the other."""

    parity: Parity = Parity()
    """How faithful a graph must be."""

    serving: Serving = Serving()
    """How the model is served."""

    @field_validator("name")
    @classmethod
    def _archive_name(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError("use letters, digits, '_', '-' and '.', starting with a letter or digit")
        if name.lower().startswith("token"):
            raise ValueError("TorchServe takes /models/token... for its token API; choose another name")
        return name

    @field_validator("core_groups")
    @classmethod
    def _readable_groups(cls, core_groups: str | None) -> str | None:
        if core_groups is not None:
            parse_core_groups(core_groups)
        return core_groups

    @field_validator("heads")
    @classmethod
    def _named_heads(cls, heads: dict[str, HeadSpec] | None) -> dict[str, HeadSpec] | None:
        for name in heads or {}:
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name == "logits":
                raise ValueError(f"{name!r} cannot name a head; use letters, digits and '_', and not 'logits'")
        return heads

    @model_validator(mode="before")
    @classmethod
    def _windows_for_questions(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and fields.get("task") == "question-answering":
            return {"long_text": "window", **fields}
        return fields

    @model_validator(mode="after")
    def _fields_go_together(self) -> Spec:
        if self.heads and self.task != "text-classification":
            raise ValueError("heads belong to the task text-classification")
        if self.task != "sentence-embedding" and self.normalize is not None:
            raise ValueError("normalize belongs to the task sentence-embedding")
        if self.task != "sentence-embedding" and self.pooling and not self.heads:
            raise ValueError("pooling belongs to the task sentence-embedding, or to heads")
        if self.long_text == "window" and not TASKS[self.task].offsets:
            raise ValueError("long_text: window belongs to the tasks token-classification and question-answering")
        if self.precision not in ("f32", "auto") and self.engine != "openvino":
            raise ValueError(f"precision: {self.precision} belongs to the engine openvino")
        if self.precision == "int8" and self.examples is None:
            raise ValueError("precision: int8 needs examples, a file of texts to calibrate on")
        if self.engine in NEURON_ENGINES:
            self._check_neuron()
        elif self.mode != "core-per-worker":
            raise ValueError(f"mode: {self.mode} belongs to the engines neuron and neuronx")
        try:
            read_parameters(self.parameters, TASKS[self.task].parameters, {})
        except RequestError as error:
            raise ValueError(f"parameters: {error}") from None
        return self

    def _check_neuron(self) -> None:
        """What goes together on NeuronCores."""
        if self.mode == "pipeline" and self.engine != "neuron":
            raise ValueError("mode: pipeline belongs to the engine neuron; only Inf1 has it")
        if self.mode != "core-per-worker" and not self.core_groups:
            raise ValueError(f"mode: {self.mode} needs core_groups, for example 4")
        if self.mode == "core-per-worker" and self.core_groups and parse_core_groups(self.core_groups)[0] > 1:
            raise ValueError(
                "mode: core-per-worker gives each worker one core; write core_groups as 1,1,1,1, or choose another mode"
            )
        if self.mode == "data-parallel" and self.engine == "neuronx" and not self.neuronx.inline_weights:
            raise ValueError("mode: data-parallel needs neuronx.inline_weights: true")
        if self.precision == "f32" and "precision" in self.model_fields_set:
            if self.engine == "neuron":
                raise ValueError("precision: f32 is not to be had on Inf1, whose products are in 16 bits; leave it out")
            if self.neuronx.auto_cast != "none":
                raise ValueError("precision: f32 needs neuronx.auto_cast: none")

    @property
    def casts_all(self) -> bool:
        """Whether a Neuron engine casts more than products."""
        return (self.neuron if self.engine == "neuron" else self.neuronx).casts_all

    @property
    def workers(self) -> int:
        """Worker processes: one a core group."""
        return len(parse_core_groups(self.core_groups)) if self.core_groups else 1


def make_spec(fields: Mapping[str, Any]) -> Spec:
    """A spec from its fields, as they stand in a file; pydantic's ValidationError where they are wrong."""
    return Spec.model_validate(fields)


def read_spec(path: Path, overrides: dict[str, Any] | None = None) -> Spec:
    """Read one spec.

    Args:
        path: the YAML file.
        overrides: fields to replace, as they would stand in the file.

    Raises:
        SpecError: naming the file, the field and what is wrong with it.
    """
    try:
        fields = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SpecError(f"{path} does not exist; models/ holds one YAML file a model") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(fields, dict):
        raise SpecError(f"{path} must hold fields such as 'name: {path.stem}'")
    try:
        spec = make_spec({**fields, **(overrides or {})})
    except ValidationError as error:
        raise SpecError(f"{path}: {_explain(error)}") from None
    if spec.name != path.stem:
        raise SpecError(f"{path}: name: {spec.name!r} must be the file's name, {path.stem!r}")
    return spec


def _explain(error: ValidationError) -> str:
    """Every fault on one line: field, what is wrong, what stood there."""
    faults = []
    for fault in error.errors():
        field = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            faults.append(f"{field}: unknown field; remove it or correct its name")
        elif fault["type"] == "missing":
            faults.append(f"{field}: missing")
        else:
            message = fault["msg"].removeprefix("Value error, ")
            given = "" if isinstance(fault["input"], dict) else f" (given: {fault['input']!r})"
            faults.append(f"{field or 'spec'}: {message}{given}")
    return "; ".join(faults)
