"""What a task is: a plain value with the functions that make rows of an instance, and an answer of outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from handlers.worker.artifact import Artifact, Signature
from handlers.worker.errors import ArtifactError, RequestError
from handlers.worker.request.parameters import read_parameters
from handlers.worker.request.schema import Schema
from handlers.worker.rows.tokenizer import RowTokenizer, Tokenized, Window
from handlers.worker.values import Instance, Json, Outputs

Parameters = Mapping[str, Json]


class Example(NamedTuple):
    """One instance on its way to its answer."""

    instance: Instance
    tokenized: Tokenized
    outputs: Sequence[Outputs]  # of each row
    parameters: Parameters


def one_window(_: Parameters, max_length: int, long_text: str) -> Window:
    """The rule of the spec for all rows."""
    return Window(max_length, long_text)


def as_it_is(instance: Instance, _: Parameters, __: Signature) -> tuple[Instance, int]:
    """The instance itself; pooling leaves out none of its tokens."""
    return instance, 0


@dataclass(frozen=True, kw_only=True)
class Task(Schema):
    """One task.

    Attributes:
        name: as specs write it.
        answer: the answer for one instance, as JSON types, from its outputs.
        window: from a request's parameters, the most tokens of a row and the spec's long_text: how the tokens of an
            instance are laid into rows. RequestError where the parameters do not go together.
        prepare: the instance as the tokenizer reads it, and how many of its first tokens pooling leaves out.
            RequestError where a parameter is not one of this model's.
        offsets: whether answers need the place of tokens in the text, so that long texts can be read in windows.
        long_text: the rule for long texts where a spec names none.
        spec_fields: that specs of this task may name, and others may not.
    """

    name: str
    answer: Callable[[Example, Signature, RowTokenizer], Json]
    window: Callable[[Parameters, int, str], Window] = one_window
    prepare: Callable[[Instance, Parameters, Signature], tuple[Instance, int]] = as_it_is
    offsets: bool = False
    long_text: str = "truncate"
    spec_fields: frozenset[str] = frozenset()

    @property
    def entry_file(self) -> str:
        """The file of `handlers/` that an archive for this task starts with."""
        return f"{self.name.replace('-', '_')}.py"


def own_parameters(task: Task, artifact: Artifact, given: Mapping[str, Json]) -> dict[str, Json]:
    """What a model takes for the parameters that a request leaves out, where it is not the task's default.

    Args:
        task: the model's.
        artifact: the model's, which knows its default prompt.
        given: what the spec says.

    Raises:
        ArtifactError: they do not fit the model, so that every request would be refused.
    """
    own = {"prompt_name": artifact.signature.default_prompt} if "prompt_name" in task.parameters else {}
    own |= given
    try:
        task.prepare(Instance("x", "x"), read_parameters(None, task.parameters, own), artifact.signature)
    except RequestError as error:
        raise ArtifactError(f"{artifact.name}: parameters in the spec do not fit the model: {error}") from None
    return own
