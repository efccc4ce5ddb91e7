"""Scores rows of Arrow batches with a model of an archive."""

from __future__ import annotations

import shutil
import weakref
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import pyarrow as pa

from handlers.worker.errors import RequestError
from handlers.worker.request.instances import Answered, Request, read_instance
from handlers.worker.rows.calls import Runner
from handlers.worker.rows.plan import Planner
from handlers.worker.rows.repeats import distinct
from handlers.worker.rows.tokenizer import Tokenized
from handlers.worker.values import Instance, Json, Outputs, Row
from marina.score.layout import Asked, layout_of
from marina.score.model import load, read_unpacked, unpack
from marina.score.values import Read

AT_ONCE = 1000  # texts tokenized at once, as the library's encodings are large


class Encoded(NamedTuple):
    """Rows of a table, and for each its instance with its tokens, or why it has none."""

    rows: pa.Table
    instances: list[tuple[Instance, Tokenized] | RequestError]


class Computed(NamedTuple):
    """Encoded rows with the outputs of each row of graphs, in order.

    tokens counts those of the rows without padding, computed those of the graphs' shapes.
    """

    encoded: Encoded
    outputs: list[Outputs | RequestError]
    tokens: int
    computed: int


class Scorer:
    """Answers rows with a model of an archive, as its server would answer each in a request of its own.

    Call it with a batch of any size; it plans the calls of the model's graphs over the whole batch. 10,000 rows at
    a time leave little padding. A scorer holds its core group until the process ends; it is for one thread.

    Args:
        archive: Path of an archive (.mar), or of a folder into which one was unpacked.
        model: The model, if the archive is a bundle.
        columns: Columns by field of an instance (`text`, `text_pair`, `question`, `context`), where they are not
            named as the fields are.
        parameters: Request parameters for every row, for example {"top_k": 3}.
        keep: Columns of the input to carry along. Default: all.
        prefix: For the names of the columns of answers.
        core_groups: Core groups instead of the archive's own, in the format of NEURONCORE_GROUP_SIZES; the scorer
            takes one of them.

    Raises:
        WorkerError: The archive is damaged, its model does not reproduce its golden rows, there are no free cores, or
            a parameter is invalid.
        MarinaError: There is no such model.

    Example:
        scorer = marina.Scorer("model_store/ava-intent.mar")
        answers = scorer(pyarrow.RecordBatch.from_pydict({"text": ["change company address"]}))
    """

    def __init__(
        self,
        archive: Path | str,
        *,
        model: str | None = None,
        columns: Mapping[str, str] | None = None,
        parameters: Mapping[str, Json] | None = None,
        keep: Sequence[str] | None = None,
        prefix: str = "",
        core_groups: str | None = None,
    ) -> None:
        folder = Path(archive)
        if not folder.is_dir():
            own = mkdtemp(prefix="marina-score-")
            weakref.finalize(self, shutil.rmtree, own, ignore_errors=True)
            folder = Path(own) / folder.stem
            unpack(Path(archive), folder)
        self._member, self.placement = load(read_unpacked(folder, model), core_groups)
        asked = Asked(columns or {}, parameters or {}, None if keep is None else tuple(keep), prefix)
        self._layout = layout_of(self._member.artifact, self._member.settings, asked)
        self._planner = Planner(self._member.times)
        self._runner = Runner([self._member.graphs])

    @property
    def longest_row_ms(self) -> float:
        """Milliseconds of a row of the longest shape, in the graph that is best for many of them."""
        return self._member.costs.longest_row

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """The columns of the answers to rows with these columns.

        Raises:
            MarinaError: A column that the model needs is missing or holds no texts, or a name is there twice.
        """
        return self._layout.schema(rows)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Answer the rows of a batch.

        A row that cannot be answered has nulls in the columns of answers, and the reason in the column `error`.

        Args:
            batch: The rows.

        Returns:
            For each row, in order, the carried columns, the columns of the answer, `truncated` and `error`.

        Raises:
            MarinaError: A column that the model needs is missing or holds no texts, or a name is there twice.
        """
        encoded = self.encode(Read(pa.Table.from_batches([batch]), {}))
        answers, _ = self.answer(self.compute(encoded))
        batches = answers.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=answers.schema)

    def encode(self, read: Read) -> Encoded:
        """Read the instances of rows, and tokenize them."""
        member, fields = self._member, self._layout.fields
        columns = self._layout.columns(read.rows.schema)
        found: list[tuple[Instance, Tokenized] | RequestError | None] = []
        readable = []
        for number, values in enumerate(zip(*(read.rows[column].to_pylist() for column in columns.values()))):
            if number in read.unread:
                found.append(read.unread[number])
                continue
            try:
                instance = read_instance(dict(zip(columns, values)), "the row", fields, member.settings.limits)
                readable.append((number, instance))
                found.append(None)
            except RequestError as error:
                found.append(error)
        request = Request(tuple(one for _, one in readable), self._layout.parameters, "bulk")
        ready = []
        for (number, instance), prepared in zip(readable, member.prepare(request)):
            if isinstance(prepared, RequestError):
                found[number] = prepared
            else:
                ready.append((number, instance, *prepared))
        for start in range(0, len(ready), AT_ONCE):
            some = ready[start : start + AT_ONCE]
            texts, windows = [text for _, _, text, _ in some], [window for *_, window in some]
            for (number, instance, *_), one in zip(some, member.reader.encode(texts, windows, member.task.offsets)):
                excess = member.excess([one])
                if isinstance(one, RequestError):
                    found[number] = one
                elif excess:
                    found[number] = excess
                else:
                    found[number] = instance, one if member.task.offsets else _small(one)
        return Encoded(read.rows, [one for one in found if one is not None])

    def compute(self, encoded: Encoded) -> Computed:
        """Run the model's graphs."""
        rows: list[Row] = [row for one in encoded.instances if isinstance(one, tuple) for row in one[1].rows]
        first, places = distinct(rows)
        rows = [rows[index] for index in first]
        lengths = [len(row.ids) for row in rows]
        calls = self._planner.plan(lengths)
        outputs = self._runner.run(calls, rows)
        computed = sum(call.shape.tokens for call in calls)
        return Computed(encoded, [outputs[place] for place in places], sum(lengths), computed)

    def answer(self, computed: Computed) -> tuple[pa.Table, int]:
        """The answers to rows, as `__call__` returns them, and how many of them are errors."""
        outputs = iter(computed.outputs)
        answers = (self._answer(one, outputs) for one in computed.encoded.instances)
        return self._layout.table(computed.encoded.rows, answers)

    def _answer(
        self, one: tuple[Instance, Tokenized] | RequestError, outputs: Iterator[Outputs | RequestError]
    ) -> Answered | RequestError:
        """The answer of an instance, whose outputs come next."""
        if isinstance(one, RequestError):
            return one
        return self._member.answer(*one, [next(outputs) for _ in one[1].rows], self._layout.parameters)


def _small(tokenized: Tokenized) -> Tokenized:
    """The same without the library's encodings, which only answers with offsets need, and with compact tokens."""
    rows = [row._replace(ids=array("i", row.ids), type_ids=array("i", row.type_ids)) for row in tokenized.rows]
    return tokenized._replace(rows=rows, encodings=[])
