"""A task: a plain value with functions that turn an instance into rows, and outputs into an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from handlers.worker.archive.artifact import Artifact
from handlers.worker.archive.signature import Signature
from handlers.worker.errors import ArtifactError, RequestError
from handlers.worker.request.parameters import read_parameters
from handlers.worker.request.schema import Schema
from handlers.worker.tasks.columns import Column, same
from handlers.worker.tokens.tokenizer import Text, Tokenized, Window
from handlers.worker.values import Instance, Json, Outputs

Parameters = Mapping[str, Json]


class Example(NamedTuple):
    """One instance, its rows and outputs, and the parameters of its request."""

    instance: Instance
    tokenized: Tokenized
    outputs: Sequence[Outputs]  # one entry per row
    parameters: Parameters


def single_window(_: Parameters, max_length: int, long_text: str) -> Window:
    """The spec's rule for long texts, applied to every row."""
    return Window(max_length, long_text)


def unchanged(text: Text, _: Parameters, __: Signature) -> Text:
    """The text unchanged."""
    return text


def any_values(_: Parameters) -> None:
    """Accept all values that the parameters themselves allow."""


def alone(instance: Instance, _: Parameters) -> list[Instance]:
    """The instance itself, whose tokens are its rows."""
    return [instance]


@dataclass(frozen=True, kw_only=True)
class Task(Schema):
    """One task.

    Attributes:
        name: the name in specs.
        answer: computes the answer for one instance, as JSON types or an array of numbers, from its outputs. Its last
            argument is the `RowTokenizer`, which tasks with offsets need, or another `RowReader`.
        columns: the columns of a model's answers to requests with these parameters.
        window: chooses how the tokens of an instance are laid out in rows, from a request's parameters, the maximum
            number of tokens in a row and the spec's long_text. RequestError if the parameters contradict each other.
        prepare: returns a text as this model's tokenizer reads it. RequestError if the model does not support a
            parameter's value.
        check: refuses parameters that do not fit each other, or any model. RequestError names the parameter.
        expand: the texts, or pairs of texts, that are read for an instance, each as rows of its own; `answer` gets the
            rows of all, in order.
        condense: keeps of a row's outputs what `answer` needs, as soon as they are computed.
        example_parameters: of requests, where the task has no answer without them, and the spec sets none.
        example_variants: parameters that examples alternate between.
        offsets: whether answers need the offsets of tokens in the text, so that long texts can be read in windows.
        long_text: the rule for long texts if a spec names none.
        usual_length: tokens of the longest texts that a new spec of this task is for.
        spec_fields: the fields that only specs of this task may have.
        scripts_only: whether only TorchScript modules have it, and no model of transformers.
        folders_only: whether no TorchScript module has it.
    """

    name: str
    answer: Callable[[Example, Signature, Any], Json]
    columns: Callable[[Signature, Parameters], list[Column]]
    window: Callable[[Parameters, int, str], Window] = single_window
    prepare: Callable[[Text, Parameters, Signature], Text] = unchanged
    check: Callable[[Parameters], None] = any_values
    expand: Callable[[Instance, Parameters], list[Instance]] = alone
    condense: Callable[[Outputs], Outputs] = same
    example_parameters: Parameters = field(default_factory=dict)
    example_variants: Sequence[Parameters] = ({},)
    offsets: bool = False
    long_text: str = "truncate"
    usual_length: int = 128
    spec_fields: frozenset[str] = frozenset()
    scripts_only: bool = False
    folders_only: bool = False

    @property
    def entry_file(self) -> str:
        """The file of `handlers/` that is the entry point of archives for this task."""
        return f"{self.name.replace('-', '_')}.py"


def default_parameters(task: Task, artifact: Artifact, spec_parameters: Mapping[str, Json]) -> dict[str, Json]:
    """The model's defaults for parameters that a request omits, if they differ from the task's defaults.

    Args:
        task: the model's task.
        artifact: the model's artifact, which contains its default prompt and other defaults.
        spec_parameters: the parameters in the spec.

    Raises:
        ArtifactError: the parameters do not fit the model, so every request would be refused.
    """
    defaults = {"prompt_name": artifact.signature.default_prompt} if "prompt_name" in task.parameters else {}
    defaults |= {**artifact.signature.defaults, **spec_parameters}
    try:
        values = read_parameters(None, task.parameters, defaults)
        task.prepare(Text(Instance("x", "x"), Window(1, "truncate")), values, artifact.signature)
    except RequestError as error:
        raise ArtifactError(f"{artifact.name}: parameters in the spec do not fit the model: {error}") from None
    return defaults
