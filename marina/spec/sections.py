"""The sections of a model spec. Each field is documented where it is defined."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from handlers.worker.values import Shape
from marina.fields import Section

AUTO_LENGTH = 128  # tokens of the longest chosen shape
MIN_PACKED_LENGTH = 8  # tokens of a packed row


class Source(Section):
    """Where the weights come from: exactly one of `hub`, `path`, `package` and `torchscript`."""

    hub: str | None = None
    """A model id of the Hugging Face hub, for example `org/name`; needs `revision`."""

    revision: str | None = None
    """The commit, tag or branch of `hub`. With a full commit, the network is needed only once."""

    path: str | None = None
    """A folder as `save_pretrained` writes it, relative to the project."""

    package: str | None = None
    """An installed Python package that contains the model; needs `folder`."""

    folder: str | None = None
    """The model's folder in `package`."""

    torchscript: str | None = None
    """A TorchScript file, relative to the project; needs `trusted`, and `tokenizer` or `preprocess`."""

    trusted: bool = False
    """For `torchscript`: true if you trust whoever made the files: TorchScript is code, which runs when loaded."""

    @model_validator(mode="after")
    def _check_one_source(self) -> Source:
        sources = [name for name in ("hub", "path", "package", "torchscript") if getattr(self, name)]
        if len(sources) != 1:
            raise ValueError("give exactly one of hub, path, package and torchscript")
        if self.torchscript and not self.trusted:
            raise ValueError(
                "a TorchScript file is code, which runs when it is loaded; add trusted: true if you trust its maker"
            )
        if self.trusted and not self.torchscript:
            raise ValueError("trusted belongs to torchscript; code of other sources is never run")
        for pair in (("hub", "revision"), ("package", "folder")):
            missing = [name for name in pair if not getattr(self, name)]
            if len(missing) == 1:
                raise ValueError(f"{pair[0]} and {pair[1]} go together; {missing[0]} is missing")
        return self

    def __str__(self) -> str:
        return (
            self.path
            or self.torchscript
            or (f"{self.hub}@{self.revision}" if self.hub else f"{self.package}/{self.folder}")
        )


class Shapes(Section):
    """The shapes to compile: every batch size with every sequence length, or `exact`; and packed ones."""

    sequence_lengths: tuple[int, ...] = (32, 128)
    """Tokens per row, including special tokens. The largest limits how much of a text the model reads."""

    batch_sizes: tuple[int, ...] = (1, 8)
    """Rows per call."""

    exact: tuple[str, ...] | None = None
    """Exactly these shapes instead, for example [1x32, 8x128]. `--shapes` takes precedence."""

    auto: int | None = Field(default=None, ge=8)
    """Choose the shapes when the model is compiled, up to this length in tokens: for `examples` the best, by the times
    of graphs on this machine, else a ladder. `shapes: auto` stands for 128. build/shapes/NAME.json keeps the choice."""

    packed: tuple[str, ...] = ()
    """Shapes whose rows hold several texts, beside the others, for example [1x128, 4x128]. In `exact` and `--shapes`
    they end with p: 4x128p."""

    @model_validator(mode="before")
    @classmethod
    def _expand_auto(cls, fields: Any) -> Any:
        if fields == "auto":
            return {"auto": AUTO_LENGTH}
        if isinstance(fields, dict) and fields.get("auto") is not None and len(fields) > 1:
            raise ValueError("auto chooses all shapes; leave the other fields out")
        return fields

    @field_validator("sequence_lengths", "batch_sizes")
    @classmethod
    def _check_sizes(cls, values: tuple[int, ...]) -> tuple[int, ...]:
        if not values or min(values) < 1 or len(set(values)) != len(values):
            raise ValueError("list distinct whole numbers of at least 1")
        return tuple(sorted(values))

    @field_validator("packed")
    @classmethod
    def _check_packed(cls, packed: tuple[str, ...]) -> tuple[str, ...]:
        shapes = sorted({Shape.parse(text)._replace(packed=False) for text in packed})
        if any(shape.sequence_length < MIN_PACKED_LENGTH for shape in shapes):
            raise ValueError(f"rows that hold several texts have at least {MIN_PACKED_LENGTH} tokens")
        return tuple(map(str, shapes))

    @field_validator("exact")
    @classmethod
    def _check_exact(cls, exact: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if exact is None:
            return None
        if not exact:
            raise ValueError("list at least one shape, for example 1x128")
        return tuple(str(shape) for shape in sorted({Shape.parse(text) for text in exact}))

    def listed(self) -> tuple[Shape, ...]:
        """Every shape to compile, in ascending order; with `auto`, the default until shapes are chosen."""
        lengths = (
            self.sequence_lengths
            if self.auto is None
            else sorted({min(self.sequence_lengths[0], self.auto), self.auto})
        )
        packed = tuple(Shape.parse(text)._replace(packed=True) for text in self.packed)
        if self.exact is not None:
            return tuple(sorted({*map(Shape.parse, self.exact), *packed}))
        return tuple(Shape(size, length) for size in self.batch_sizes for length in lengths) + packed


class Parity(Section):
    """How closely a graph must match the original model."""

    tolerance: float = Field(default=1e-4, gt=0)
    """f32: the largest allowed difference between any output and the reference model's. On Neuron engines,
    the default is 1e-3."""

    agreement: float = Field(default=0.98, gt=0, le=1)
    """Lower precisions: the share of held-out texts that must have the reference model's answer: the same
    labels or the same answer; for entities, their F1."""

    cosine: float = Field(default=0.99, gt=0, le=1)
    """Lower precisions: the smallest allowed mean cosine between embeddings of held-out texts and the
    reference model's."""


class WorkerServing(Section):
    """How TorchServe and its workers serve an archive. Changing these fields compiles nothing."""

    batch_size: int = Field(default=32, ge=1)
    """Maximum number of requests in a batch."""

    batch_delay_ms: int = Field(default=1, ge=1)
    """Milliseconds that TorchServe waits for a batch to fill. 1 fills batches under load and costs little
    when idle. TorchServe would read 0 as 100."""

    response_timeout_s: int = Field(default=30, ge=1)
    """TorchServe kills a worker that takes longer than this for a batch, in seconds."""

    startup_timeout_s: int = Field(default=120, ge=1)
    """Seconds that a worker may take to load and verify its graphs."""

    deadline_ms: int = Field(default=5000, ge=1)
    """Milliseconds that a request may take. One that alone needs longer is refused with 413. One that has waited longer
    is refused with 503 if a proxy sends `X-Request-Start`; without that, a worker cannot know. 25 seconds
    later TorchServe drops it without an answer."""

    max_batch_ms: int = Field(default=250, ge=1)
    """Estimated milliseconds of work in a batch with costly requests, which are those that need more than a quarter of
    it and have several texts. Cheap requests are computed first. Those that do not fit get 503 with
    `Retry-After`, so nobody waits long behind costly requests. One request may exceed it."""

    queue_size: int | None = Field(default=None, ge=1)
    """Maximum number of waiting requests. Further requests get 503 immediately. Default: as many as
    can be answered before the deadline, that is batch_size * deadline_ms / max_batch_ms."""

    server_timing: bool = False
    """Add a Server-Timing header to answers: milliseconds of each stage of the batch that the request was in."""

    @property
    def queue(self) -> int:
        """`queue_size`, or its default."""
        return self.queue_size or max(1, self.batch_size * self.deadline_ms // self.max_batch_ms)


class Serving(WorkerServing):
    """How TorchServe and its workers serve the model. Changing these fields compiles nothing."""

    max_instances: int = Field(default=256, ge=1)
    """Maximum number of instances in a request, and of the rows that their texts make: windows, or texts with
    candidate labels."""

    max_characters: int = Field(default=100_000, ge=1)
    """Maximum number of characters in a text. This limits the work before a text is cut."""

    max_windows: int = Field(default=256, ge=1)
    """Maximum number of windows of one text, if long texts are read in windows."""

    max_tokens: int = Field(default=4096, ge=1)
    """Maximum number of tokens of all texts in a request, after long texts are cut."""

    max_body_bytes: int = Field(default=500_000, ge=1)
    """Maximum size of a request body in bytes. TorchServe's own limit is max_request_size in
    config.properties."""


class OutputSpec(Section):
    """One output of a TorchScript model; `outputs` has them by their names, in the model's order."""

    labels: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Tasks of classification: names of its values, in order."""

    activation: Literal["softmax", "sigmoid", "none"] = "softmax"
    """text-classification: how its values become scores."""

    pooling: Literal["mean", "cls", "max", "last"] | None = None
    """How a vector for each token becomes one for the text. Default: it is not pooled."""


class HeadSpec(Section):
    """One head of several; `heads` has them by their names."""

    labels: tuple[str, ...] = Field(min_length=1)
    """Names of its outputs, in order."""

    activation: Literal["softmax", "sigmoid", "none"] = "softmax"
    """How logits become scores."""
