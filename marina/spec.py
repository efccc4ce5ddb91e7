"""Model specs: `models/<name>.yaml`, read and checked. Each field is documented where it is defined."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from handlers.worker.cores import parse_core_groups
from handlers.worker.errors import RequestError
from handlers.worker.parameters import read_parameters
from handlers.worker.plan import Shape
from marina.errors import SpecError
from marina.tasks import TASKS

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True, use_attribute_docstrings=True)


class Source(_Section):
    """Where the weights come from: exactly one of `hub`, `path` and `package`."""

    hub: str | None = None
    """A model id on the Hugging Face hub, for example `org/name`; needs `revision`."""

    revision: str | None = None
    """The commit, tag or branch of `hub`. A full commit never needs the network twice."""

    path: str | None = None
    """A folder as `save_pretrained` writes it, relative to the project."""

    package: str | None = None
    """An installed Python package that carries the model; needs `folder`."""

    folder: str | None = None
    """The model's folder inside `package`."""

    @model_validator(mode="after")
    def _one_place(self) -> Source:
        places = [name for name in ("hub", "path", "package") if getattr(self, name)]
        if len(places) != 1:
            raise ValueError("give exactly one of hub, path and package")
        if bool(self.hub) != bool(self.revision):
            raise ValueError("hub and revision go together")
        if bool(self.package) != bool(self.folder):
            raise ValueError("package and folder go together")
        return self

    def __str__(self) -> str:
        return self.path or (f"{self.hub}@{self.revision}" if self.hub else f"{self.package}/{self.folder}")


class Shapes(_Section):
    """The shapes to compile: every batch size with every sequence length, or `exact`."""

    sequence_lengths: tuple[int, ...] = (32, 128)
    """Tokens in a row, special tokens included. The largest bounds what the model can read."""

    batch_sizes: tuple[int, ...] = (1, 8)
    """Rows in one call."""

    exact: tuple[str, ...] | None = None
    """Exactly these shapes instead, for example [1x32, 8x128]; `--shapes` overrides it."""

    @field_validator("sequence_lengths", "batch_sizes")
    @classmethod
    def _positive_and_distinct(cls, values: tuple[int, ...]) -> tuple[int, ...]:
        if not values or min(values) < 1 or len(set(values)) != len(values):
            raise ValueError("list distinct whole numbers of at least 1")
        return tuple(sorted(values))

    @field_validator("exact")
    @classmethod
    def _readable(cls, exact: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if exact is None:
            return None
        if not exact:
            raise ValueError("list at least one shape, for example 1x128")
        return tuple(str(shape) for shape in sorted({Shape.parse(text) for text in exact}))

    def listed(self) -> tuple[Shape, ...]:
        """Every shape to compile, in ascending order."""
        if self.exact is not None:
            return tuple(Shape.parse(text) for text in self.exact)
        return tuple(Shape(size, length) for size in self.batch_sizes for length in self.sequence_lengths)


class Parity(_Section):
    """How faithful a graph must be."""

    tolerance: float = Field(default=1e-4, gt=0)
    """f32: the largest absolute difference of any output to the reference model's."""

    agreement: float = Field(default=0.98, gt=0, le=1)
    """bf16 and int8: the least share of held-out texts that must be answered as the reference model
    does: with the same labels, the same answer, or, of entities, their F1."""

    cosine: float = Field(default=0.99, gt=0, le=1)
    """bf16 and int8: the least mean cosine of embeddings of held-out texts to the reference model's."""


class Serving(_Section):
    """How TorchServe and its workers serve the model. Changing these packs again, without compiling."""

    batch_size: int = Field(default=32, ge=1)
    """Requests that TorchServe hands to a worker at once, at most."""

    batch_delay_ms: int = Field(default=1, ge=1)
    """Milliseconds that TorchServe waits to fill a batch. 1 batches under load and costs little when
    idle; TorchServe would read 0 as 100."""

    response_timeout_s: int = Field(default=120, ge=1)
    """Seconds after which TorchServe kills a worker that has not answered a batch."""

    startup_timeout_s: int = Field(default=120, ge=1)
    """Seconds that a worker may take to load its graphs and prove them."""

    queue_size: int = Field(default=1000, ge=1)
    """Requests that may wait; more are answered 503 at once."""

    max_instances: int = Field(default=256, ge=1)
    """Instances in one request, and windows that their texts make, at most."""

    max_characters: int = Field(default=100_000, ge=1)
    """Characters in one text, at most; bounds the work before a text is cut."""

    max_body_bytes: int = Field(default=2_000_000, ge=1)
    """Bytes in the body of one request, at most. TorchServe's own bound is max_request_size in
    config.properties."""


class HeadSpec(_Section):
    """One head on an encoder."""

    labels: tuple[str, ...] = Field(min_length=1)
    """Names of its outputs, in order."""

    activation: Literal["softmax", "sigmoid", "none"] = "softmax"
    """How its logits become scores."""


class Spec(_Section):
    """One model: where it comes from, what it does, how it is compiled and served."""

    name: str
    """Name of the model and its archive; also the file's name."""

    version: str = "1.0"
    """Version of the archive, as TorchServe shows it."""

    task: Literal["sentence-embedding", "text-classification", "token-classification", "question-answering"]
    """What the model answers."""

    source: Source
    """Where the weights come from."""

    engine: Literal["openvino", "torchscript"] = "openvino"
    """What compiles and runs the graphs; `--engine` overrides it."""

    precision: Literal["f32", "bf16", "int8", "auto"] = "f32"
    """Number format of the computation. The engine openvino also has bf16, and int8, which needs
    `examples` to be calibrated on; answers then differ a little from the original model's, within
    what `parity` allows. auto measures all that are possible, and keeps the fastest that passes."""

    shapes: Shapes = Shapes()
    """The shapes to compile."""

    long_text: Literal["truncate", "reject", "window"] = "truncate"
    """What to do with a text longer than the largest shape: cut it, answer 400, or, in the tasks
    token-classification and question-answering, read it in windows that overlap. Left out:
    question-answering reads windows, other tasks cut."""

    parameters: dict[str, Any] = {}
    """What requests may set under "parameters", where the model's own default differs from the
    task's, for example `aggregation_strategy: simple`."""

    core_groups: str | None = None
    """Cores of each worker, written as NEURONCORE_GROUP_SIZES is: "1,1" is two workers with a core
    each. Left out: one worker that uses every core."""

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
    def _equal_groups(cls, core_groups: str | None) -> str | None:
        if core_groups is not None and len(set(parse_core_groups(core_groups))) > 1:
            raise ValueError("core groups must be of one size, for example 2,2")
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
        try:
            read_parameters(self.parameters, TASKS[self.task].parameters, {})
        except RequestError as error:
            raise ValueError(f"parameters: {error}") from None
        return self

    @property
    def workers(self) -> int:
        """Worker processes: one a core group."""
        return len(parse_core_groups(self.core_groups)) if self.core_groups else 1


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
        spec = Spec.model_validate({**fields, **(overrides or {})})
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
