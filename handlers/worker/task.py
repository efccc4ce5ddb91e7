"""What one task adds to the worker: what an instance is, its parameters, and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from handlers.worker.artifact import Artifact
from handlers.worker.calls import Outputs
from handlers.worker.errors import ArtifactError, RequestError
from handlers.worker.instances import Instance
from handlers.worker.parameters import Parameter, read_parameters
from handlers.worker.tokenizing import RowTokenizer, Tokenized, Window

Json = Any
Parameters = Mapping[str, Json]


class Fields(NamedTuple):
    """The JSON fields of an instance.

    A bare text stands for an instance unless the second field is required. `second` is None where
    an instance is one text.
    """

    first: str
    second: str | None = None
    second_required: bool = False


class Example(NamedTuple):
    """One instance on its way to its answer."""

    instance: Instance
    tokenized: Tokenized
    outputs: Sequence[Outputs]  # of each row
    parameters: Parameters


class Task(Protocol):
    """One task, as its handler file defines it."""

    task: str
    fields: Fields
    parameters: Mapping[str, Parameter]
    offsets: bool  # whether answers need the place of tokens in the text
    vectors: bool  # whether answers are vectors, which can be compared

    def window(self, parameters: Parameters, max_length: int, long_text: str) -> Window:
        """How the tokens of an instance with these parameters are laid into rows.

        Raises:
            RequestError: the parameters do not go together.
        """

    def prepare(self, instance: Instance, parameters: Parameters, artifact: Artifact) -> tuple[Instance, int]:
        """The instance as the tokenizer reads it, and how many of its first tokens pooling leaves out.

        Raises:
            RequestError: a parameter is not one of this model's.
        """

    def answer(self, example: Example, artifact: Artifact, tokenizer: RowTokenizer) -> Json:
        """The answer for one instance, as JSON types."""


def own_parameters(task: Task, artifact: Artifact, given: Mapping[str, Json]) -> dict[str, Json]:
    """What a model takes for the parameters that a request leaves out, where it is not the task's default.

    Args:
        task: the model's.
        artifact: the model's, which knows its default prompt.
        given: what the spec says.

    Raises:
        ArtifactError: they do not fit the model, so that every request would be refused.
    """
    own = {"prompt_name": artifact.default_prompt} if "prompt_name" in task.parameters else {}
    own |= given
    try:
        task.prepare(Instance("x", "x"), read_parameters(None, task.parameters, own), artifact)
    except RequestError as error:
        raise ArtifactError(f"{artifact.name}: parameters in the spec do not fit the model: {error}") from None
    return own
