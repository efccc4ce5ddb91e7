"""What can go wrong outside the server.

    MarinaError
    ├── SpecError       a model spec is wrong
    ├── SourceError     weights or tokenizer cannot be used
    ├── CompileError    a model cannot be compiled, or a graph is not faithful
    ├── ServerError     TorchServe did not start, stop or do as told
    └── PredictError    a prediction was refused

Each carries one line for a person: the thing, the cause and the fix.
"""

from __future__ import annotations


class MarinaError(Exception):
    """A failure that ends a command with one line and a non-zero exit."""


class SpecError(MarinaError):
    """A model spec is wrong. The message names the file, the field and the fix."""


class SourceError(MarinaError):
    """The weights or the tokenizer of a model cannot be used."""


class CompileError(MarinaError):
    """A model cannot be compiled, or a graph does not reproduce the reference model."""


class ServerError(MarinaError):
    """TorchServe did not start, stop or do as told."""


class PredictError(MarinaError):
    """A prediction was refused.

    Attributes:
        status: HTTP status of the answer.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status
