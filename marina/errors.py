"""What can go wrong outside the server.

    MarinaError
    ├── SpecError       a model spec is wrong
    ├── SourceError     weights or tokenizer cannot be used
    ├── CompileError    a model cannot be compiled, or a graph is not faithful
    ├── ServerError     TorchServe did not start, stop or do what was asked
    └── ClientError     a served model gave no answer
        ├── UnreachableError     nothing listens, or the time is up
        ├── UnauthorizedError    the token is missing, wrong or expired
        ├── UnknownModelError    no such model is served
        ├── RefusedError         the request is at fault
        ├── OverloadedError      the queue is full, or no worker is READY
        └── FailedError          the server is at fault, or it is not TorchServe

Each carries one line for a person: the thing, the cause and the fix.
"""

from __future__ import annotations


class MarinaError(Exception):
    """A failure that ends a command with one line and a non-zero exit.

    Attributes:
        cause: what is wrong.
        fix: what to do about it; "" where the cause says it.
    """

    def __init__(self, cause: str, fix: str = "") -> None:
        super().__init__(f"{cause}; {fix}" if fix else cause)
        self.cause = cause
        self.fix = fix


class SpecError(MarinaError):
    """A model spec is wrong. The message names the file, the field and the fix."""


class SourceError(MarinaError):
    """The weights or the tokenizer of a model cannot be used."""


class CompileError(MarinaError):
    """A model cannot be compiled, or a graph does not reproduce the reference model."""


class ServerError(MarinaError):
    """TorchServe did not start, stop or do what was asked."""


class ClientError(MarinaError):
    """A served model gave no answer."""


class UnreachableError(ClientError):
    """Nothing listens there, or no answer came in time."""


class UnauthorizedError(ClientError):
    """The token is missing, wrong or expired."""


class UnknownModelError(ClientError):
    """No such model is served."""


class OverloadedError(ClientError):
    """The queue is full, or no worker is READY; try again later."""


class FailedError(ClientError):
    """The server could not answer, or sent what is not JSON; the request is not at fault."""


class RefusedError(ClientError):
    """The request is at fault.

    Attributes:
        kind: short name for programs, for example "TextTooLong"; see docs/errors.md.
        status: HTTP status, 4xx.
    """

    def __init__(self, message: str, kind: str, status: int) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
