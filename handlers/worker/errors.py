"""What can go wrong inside a worker.

WorkerError
├── ArtifactError     the artifact is missing, damaged, or made for another setting
├── GoldenError       a graph does not reproduce the golden rows
└── RequestError      one request cannot be answered; carries an HTTP status
"""

from __future__ import annotations


class WorkerError(Exception):
    """A failure with a message fit for the person who runs the server."""


class ArtifactError(WorkerError):
    """The artifact cannot be used. The message names the file, the cause and the fix."""


class GoldenError(WorkerError):
    """A graph does not reproduce the golden rows on the cores it runs on."""


class RequestError(WorkerError):
    """One request cannot be answered; its neighbours in the batch are not touched.

    Attributes:
        status: HTTP status of the answer, 4xx where the request is at fault.
        kind: short CamelCase name for programs, for example "TextTooLong".
    """

    def __init__(self, kind: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
