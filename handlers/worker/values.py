"""Plain values that the stages of a worker exchange: instances, rows, shapes and calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PACKED = "p"  # ends the name of a packed shape
TOKENS_A_TEXT = 4  # of a packed shape: so many tokens for each text, if all are as short as they can be
Json = Any
# the outputs of one row, or of all rows of a call, in the order of `Signature.outputs`
Outputs: TypeAlias = "list[npt.NDArray[np.float32]]"


class Instance(NamedTuple):
    """One item to answer: a text, a pair of texts, a question with its context, or more texts for a preprocessor."""

    text: str
    text_pair: str | None = None
    others: tuple[str, ...] = ()

    @property
    def texts(self) -> list[str]:
        """All its texts."""
        return [self.text, *([] if self.text_pair is None else [self.text_pair]), *self.others]


class Row(NamedTuple):
    """The tokens of one row, without padding; both lists have the same length.

    prompt_tokens is the number of tokens at the start that belong to a prompt that pooling excludes. tensors are the
    values of inputs that a preprocessor gives, by name: one per token, or one for the row.
    """

    ids: Sequence[int]
    type_ids: Sequence[int]
    prompt_tokens: int = 0
    tensors: Mapping[str, list[float] | float] = {}


class Shape(NamedTuple):
    """The static shape that one compiled graph accepts, in rows and tokens.

    A row of a packed shape is a line, which holds several rows of texts one after the other.
    """

    batch_size: int
    sequence_length: int
    packed: bool = False

    def __str__(self) -> str:
        return f"{self.batch_size}x{self.sequence_length}{PACKED * self.packed}"

    @property
    def dims(self) -> tuple[int, int]:
        """The dimensions of the graph's inputs."""
        return self.batch_size, self.sequence_length

    @property
    def tokens(self) -> int:
        """The tokens that a call computes."""
        return self.batch_size * self.sequence_length

    @property
    def texts_a_line(self) -> int:
        """The most texts in a row of the graph."""
        return max(1, self.sequence_length // TOKENS_A_TEXT) if self.packed else 1

    @classmethod
    def parse(cls, text: str) -> Shape:
        """Parse "8x128" as batch_size 8 and sequence_length 128, and "8x128p" as packed; ValueError for other texts."""
        plain = text.strip()
        packed = plain.endswith(PACKED)
        batch_size, separator, sequence_length = plain.removesuffix(PACKED).partition("x")
        if not (separator and batch_size.isdecimal() and sequence_length.isdecimal()):
            raise ValueError(
                f"{text!r} is not a shape; write BATCHxLENGTH, for example 8x128, or 8x128{PACKED} if packed"
            )
        if not (int(batch_size) and int(sequence_length)):
            raise ValueError(f"{text!r} is not a shape; both numbers must be at least 1")
        return cls(int(batch_size), int(sequence_length), packed)


class Place(NamedTuple):
    """Where a row is in a packed call: the line, its number among the rows there, and its first token there."""

    line: int
    number: int
    start: int


class Call(NamedTuple):
    """One run of one graph: its shape, the indices of the rows it computes, and the number of its model in a bundle.

    places are those of the rows of a packed shape, in the same order; empty for others.
    """

    shape: Shape
    rows: tuple[int, ...]
    member: int = 0
    places: tuple[Place, ...] = ()

    @property
    def used(self) -> int:
        """The rows of the graph that are not empty."""
        return max((place.line for place in self.places), default=-1) + 1 if self.shape.packed else len(self.rows)
