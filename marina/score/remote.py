"""Answers the rows of shards with a server elsewhere."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from handlers.worker.errors import KINDS, RequestError
from handlers.worker.request.instances import Answered
from handlers.worker.values import Json
from marina.client import Client, Streamed
from marina.errors import ClientError, RefusedError
from marina.score.layout import Layout
from marina.score.values import Counts, Read

ROW_MS = 10.0  # an estimate for a long row, which decides the size of shards
NO_ANSWER = RequestError("Unexpected", "the server gave no answer for this instance")


class Server(NamedTuple):
    """A server: the URL of its inference API, its token, and the model's name there."""

    url: str
    token: str | None
    model: str


class RemoteEncoded(NamedTuple):
    """Rows of a table, and for each the instance to send, or the error of the row."""

    rows: pa.Table
    instances: list[dict[str, Json] | RequestError]


class RemoteComputed(NamedTuple):
    """Rows with their answers. What the server computed for them is not known."""

    rows: pa.Table
    answers: list[Answered | RequestError]


class RemoteScorer:
    """The same stages as those of a `Scorer`, on a server.

    Args:
        server: where the model is served.
        layout: which columns are read, carried along and written.
    """

    longest_row_ms = ROW_MS

    def __init__(self, server: Server, layout: Layout) -> None:
        self._server = server
        self._layout = layout
        self._client = Client.http(server.url, server.token)

    def encode(self, read: Read) -> RemoteEncoded:
        """The instances of rows."""
        columns = self._layout.columns(read.rows.schema)
        values = zip(*(read.rows[column].to_pylist() for column in columns.values()), strict=True)
        instances: list[dict[str, Json] | RequestError] = []
        for number, row in enumerate(values):
            instance = {field: value for field, value in zip(columns, row, strict=True) if value is not None}
            instances.append(read.unread.get(number, instance))
        return RemoteEncoded(read.rows, instances)

    def compute(self, encoded: RemoteEncoded) -> RemoteComputed:
        """Send the instances, and gather the answers.

        Raises:
            ClientError: the server cannot be reached, does not know the model, or fails.
        """
        instances = encoded.instances
        valid = [
            (number, instance) for number, instance in enumerate(instances) if not isinstance(instance, RequestError)
        ]
        results: dict[int, Answered | RequestError] = {
            number: instance for number, instance in enumerate(instances) if isinstance(instance, RequestError)
        }
        for streamed in self._client.stream(self._server.model, valid, **self._layout.explicit):
            results[streamed.key] = _result_of(streamed)
        return RemoteComputed(encoded.rows, [results.get(number, NO_ANSWER) for number in range(len(instances))])

    def answer(self, computed: RemoteComputed) -> tuple[pa.Table, Counts]:
        """The answers to rows, and their counts without tokens."""
        return self._layout.table(computed.rows, computed.answers)


def _result_of(streamed: Streamed) -> Answered | RequestError:
    error: ClientError | None = streamed.error
    if error is None:
        return Answered(streamed.answer, streamed.truncated, 0)
    kind = error.kind if isinstance(error, RefusedError) and error.kind in KINDS else "Unexpected"
    return RequestError(kind, str(error))
