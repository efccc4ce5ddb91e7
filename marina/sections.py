"""The sections of a model spec. Each field is documented where it is defined."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from handlers.worker.values import Shape
from marina.fields import Section


class Source(Section):
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
        for pair in (("hub", "revision"), ("package", "folder")):
            missing = [name for name in pair if not getattr(self, name)]
            if len(missing) == 1:
                raise ValueError(f"{pair[0]} and {pair[1]} go together; {missing[0]} is missing")
        return self

    def __str__(self) -> str:
        return self.path or (f"{self.hub}@{self.revision}" if self.hub else f"{self.package}/{self.folder}")


class Shapes(Section):
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


class Parity(Section):
    """How faithful a graph must be."""

    tolerance: float = Field(default=1e-4, gt=0)
    """f32: the largest absolute difference of any output to the reference model's. Left out it is
    1e-3 on Neuron engines."""

    agreement: float = Field(default=0.98, gt=0, le=1)
    """Lower precisions: the least share of held-out texts that must be answered as the reference model
    does: with the same labels, the same answer, or, of entities, their F1."""

    cosine: float = Field(default=0.99, gt=0, le=1)
    """Lower precisions: the least mean cosine of embeddings of held-out texts to the reference model's."""


class Serving(Section):
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

    max_windows: int = Field(default=256, ge=1)
    """Windows that one text makes, at most, where long texts are read in windows."""

    max_body_bytes: int = Field(default=2_000_000, ge=1)
    """Bytes in the body of one request, at most. TorchServe's own bound is max_request_size in
    config.properties."""


class HeadSpec(Section):
    """One head on an encoder."""

    labels: tuple[str, ...] = Field(min_length=1)
    """Names of its outputs, in order."""

    activation: Literal["softmax", "sigmoid", "none"] = "softmax"
    """How its logits become scores."""
