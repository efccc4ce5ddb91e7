"""Scores rows of Arrow batches with a model of an archive."""

from __future__ import annotations

import shutil
import weakref
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import pyarrow as pa

from handlers.worker.answering import pipeline
from handlers.worker.answering.pipeline import Graphs, Inference
from handlers.worker.archive.unpack import unpack
from handlers.worker.errors import RequestError
from handlers.worker.request.instances import Answered, Request, read_instance
from handlers.worker.tokens.tokenizer import Tokenized
from handlers.worker.values import Json
from marina.archive.unpacked import load, read_unpacked
from marina.score.layout import AnswerOptions, layout_of
from marina.score.values import Counts, Read

CHUNK_TEXTS = 1000  # about so many texts are tokenized together; the library's encodings are large


class Encoded(NamedTuple):
    """Rows of a table, and for each its inference, or the error of the row."""

    rows: pa.Table
    inferences: list[Inference | RequestError]


class Computed(NamedTuple):
    """Encoded rows, whose inferences have their outputs.

    tokens counts the tokens of the rows without padding, computed the tokens of the graphs' shapes.
    """

    encoded: Encoded
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
            temp_folder = mkdtemp(prefix="marina-score-")
            weakref.finalize(self, shutil.rmtree, temp_folder, ignore_errors=True)
            folder = Path(temp_folder) / folder.stem
            unpack(Path(archive), folder)
        self._member, self.placement = load(read_unpacked(folder, model), core_groups)
        options = AnswerOptions(columns or {}, parameters or {}, None if keep is None else tuple(keep), prefix)
        self._layout = layout_of(self._member.artifact, self._member.settings, options)
        self._graphs = Graphs([self._member])

    @property
    def longest_row_ms(self) -> float:
        """Milliseconds of a row of the longest shape, in the graph that is best for many of them."""
        return self._member.costs.longest_row_ms

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
        columns = self._layout.columns(read.rows.schema)
        values = zip(*(read.rows[column].to_pylist() for column in columns.values()), strict=True)
        inferences = [
            read.unread[number] if number in read.unread else self._prepare(dict(zip(columns, row, strict=True)))
            for number, row in enumerate(values)
        ]
        valid = [inference for inference in inferences if isinstance(inference, Inference)]
        instances = max(1, CHUNK_TEXTS // max(1, *(len(inference.texts) for inference in valid), 1))
        for start in range(0, len(valid), instances):
            chunk = valid[start : start + instances]
            pipeline.tokenize(chunk)
            for inference in chunk:
                pipeline.check_limits([inference])
                if inference.tokenized and not self._member.task.offsets:
                    inference.tokenized = _compact(inference.tokenized)
        return Encoded(read.rows, inferences)

    def _prepare(self, values: Mapping[str, Json]) -> Inference | RequestError:
        """The instance of a row, which has these values in the columns that the model reads."""
        member = self._member
        try:
            instance = read_instance(values, "the row", self._layout.fields, member.settings.limits)
        except RequestError as error:
            return error
        (inference,) = pipeline.prepare(member, Request((instance,), self._layout.parameters, "bulk")).inferences
        return inference

    def compute(self, encoded: Encoded) -> Computed:
        """Run the model's graphs."""
        plan = self._graphs.plan(inference for inference in encoded.inferences if isinstance(inference, Inference))
        self._graphs.run(plan)
        return Computed(encoded, sum(plan.lengths), sum(call.shape.tokens for call in plan.calls))

    def answer(self, computed: Computed) -> tuple[pa.Table, Counts]:
        """The answers to rows, as `__call__` returns them, and their counts."""
        answers, counts = self._layout.table(computed.encoded.rows, map(_result, computed.encoded.inferences))
        return answers, counts._replace(tokens=computed.tokens, computed=computed.computed)


def _result(inference: Inference | RequestError) -> Answered | RequestError:
    if isinstance(inference, RequestError):
        return inference
    pipeline.answer([inference])
    assert inference.result is not None
    inference.outputs = {}
    return inference.result


def _compact(tokenized: Tokenized) -> Tokenized:
    """The same without the library's encodings, which only answers with offsets need, and with compact tokens."""
    rows = [row._replace(ids=array("i", row.ids), type_ids=array("i", row.type_ids)) for row in tokenized.rows]
    return tokenized._replace(rows=rows, encodings=[])
