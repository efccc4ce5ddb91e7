"""Exceptions that are raised outside the server.

    MarinaError
    ├── SpecError       a model spec is invalid
    ├── SourceError     weights or tokenizer cannot be used
    ├── CompileError    a model cannot be compiled, or a graph does not match the reference model
    ├── ServerError     TorchServe could not be started, stopped or managed
    ├── DeployError     an archive cannot be deployed on a target
    └── ClientError     a request to a served model failed
        ├── UnreachableError     no server is listening, or the connection was lost
        │   └── TimedOutError    there was no answer in time
        ├── UnauthorizedError    the token is missing, wrong or expired
        ├── UnknownModelError    no model with this name is served
        ├── RefusedError         the request is invalid
        ├── OverloadedError      the queue is full, or no worker is READY
        └── FailedError          the server failed, or it is not TorchServe

Every message is a single line that says what failed, why, and how to fix it.
"""

from __future__ import annotations


class MarinaError(Exception):
    """Base class of all exceptions here. A command prints its message on one line and exits with a non-zero status.

    Attributes:
        cause: What is wrong.
        fix: How to fix it; "" if the cause makes that clear.
    """

    def __init__(self, cause: str, fix: str = "") -> None:
        super().__init__(f"{cause}; {fix}" if fix else cause)
        self.cause = cause
        self.fix = fix


class SpecError(MarinaError):
    """A model spec is invalid. The message names the file, the field and the fix."""


class SourceError(MarinaError):
    """The weights or the tokenizer of a model cannot be used."""


class CompileError(MarinaError):
    """A model cannot be compiled, or a graph does not reproduce the reference model."""


class NotPackable(CompileError):
    """Texts that share a row of this model would get other answers than alone."""


class ServerError(MarinaError):
    """TorchServe could not be started, stopped or managed."""


class DeployError(MarinaError):
    """An archive cannot be deployed on a target."""


class ClientError(MarinaError):
    """A request to a served model failed.

    Attributes:
        transient: Whether the same request may succeed later.
        retry_after_s: Seconds that the server asks to wait before that; 0 if it does not say.
    """

    def __init__(self, message: str, *, transient: bool = False, retry_after_s: float = 0) -> None:
        super().__init__(message)
        self.transient = transient
        self.retry_after_s = retry_after_s


class UnreachableError(ClientError):
    """No server is listening at the address, or the connection was lost."""


class TimedOutError(UnreachableError):
    """There was no answer in time, neither from the server nor from a gateway before it."""


class UnauthorizedError(ClientError):
    """The token is missing, wrong or expired."""


class UnknownModelError(ClientError):
    """The server has no model with this name."""


class OverloadedError(ClientError):
    """The queue is full, no worker is READY, or a proxy limits the rate; try again later."""


class FailedError(ClientError):
    """The server failed to answer, or its answer is not JSON. The request itself is not the cause."""


class RefusedError(ClientError):
    """The request is invalid.

    Attributes:
        kind: Short name of the error for use in programs, for example "TextTooLong"; see docs/reference/errors.md.
        status: HTTP status, 4xx.
    """

    def __init__(self, message: str, kind: str, status: int) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
