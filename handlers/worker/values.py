"""Plain values that the stages of a worker exchange: instances, rows, shapes and calls."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PACKED = "p"  # ends the name of a packed shape
TOKENS_A_TEXT = 4  # a line of a packed shape has room for one text per 4 tokens, however short its texts are
Json = Any
# the outputs of one row, or of all rows of a call, in the order of `Signature.outputs`
Outputs: TypeAlias = "list[npt.NDArray[np.float32]]"


class Instance(NamedTuple):
    """One item to answer: a text, a pair of texts, a question with its context, or more texts for a preprocessor.

    role says whether the text is a query or a document, for models that distinguish them; see `Signature.roles`.
    """

    text: str
    text_pair: str | None = None
    others: tuple[str, ...] = ()
    role: str | None = None

    @property
    def texts(self) -> list[str]:
        """All texts of the instance."""
        return [self.text, *([] if self.text_pair is None else [self.text_pair]), *self.others]


class Row(NamedTuple):
    """The tokens of one row, without padding; ids and type_ids have the same length.

    prompt_tokens is the number of tokens at the start that belong to a prompt that pooling excludes. tensors are the
    values that a preprocessor gives for inputs, by name: one per token, or one for the row. filled is the number of
    tokens at the end that the row was filled up with, see `handlers.worker.archive.signature.Filling`.
    """

    ids: Sequence[int]
    type_ids: Sequence[int]
    prompt_tokens: int = 0
    tensors: Mapping[str, list[float] | float] = {}
    filled: int = 0

    @property
    def key(self) -> Hashable:
        """Rows of one tokenizer with equal keys have equal outputs."""
        return tuple(self.ids), tuple(self.type_ids), self.prompt_tokens, self.filled


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
        """The maximum number of texts in a row of the graph."""
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
    """Where a row is in a packed call: its line, its number among the rows of the line, and its first token there."""

    line: int
    number: int
    start: int


class Call(NamedTuple):
    """One run of one graph: its shape, the indices of the rows it computes, and the number of its model in a bundle.

    places are the places of the rows in a packed shape, in the same order; empty for other shapes.
    """

    shape: Shape
    rows: tuple[int, ...]
    member: int = 0
    places: tuple[Place, ...] = ()

    @property
    def used_rows(self) -> int:
        """The number of rows of the graph that are not empty."""
        return max((place.line for place in self.places), default=-1) + 1 if self.shape.packed else len(self.rows)
