"""One model of an archive, in memory and checked on its golden rows: requests to rows, and outputs to answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from handlers.worker.admission.costs import Costs
from handlers.worker.archive.artifact import REMEDY, Artifact, check_files, read_artifact
from handlers.worker.archive.signature import QUERY
from handlers.worker.engines import Runtime
from handlers.worker.errors import ArtifactError, RequestError, request_error
from handlers.worker.members.golden import GoldenRow, check_graphs, check_tokenizer, read_golden_rows
from handlers.worker.request.instances import Answered
from handlers.worker.request.schema import required_fields
from handlers.worker.request.text import check_text
from handlers.worker.rows.calls import ModelGraphs, load_graphs
from handlers.worker.rows.plan import max_sequence_length
from handlers.worker.rows.timing import time_graphs
from handlers.worker.settings import MemberSettings
from handlers.worker.tasks.base import Example, Task, default_parameters
from handlers.worker.tokens.reader import RowReader, open_reader, reader_file
from handlers.worker.tokens.tokenizer import Text, Tokenized, Window
from handlers.worker.values import Instance, Json, Outputs

# opens the reader of an artifact; artifacts may share a reader
Readers = Callable[[Artifact], RowReader]


class OpenedArtifact(NamedTuple):
    """An artifact whose files and tokenizer were checked, with its golden rows and its reader."""

    artifact: Artifact
    golden: list[GoldenRow]
    reader: RowReader


def open_artifact(
    folder: Path, stored: Mapping[str, str], tasks: Mapping[str, Task], readers: Readers
) -> OpenedArtifact:
    """Read an artifact, and check its files and its tokenizer, before any cores are taken.

    Args:
        folder: the artifact's folder.
        stored: the files outside of `folder`; see `Artifact`.
        tasks: the tasks that the archive's handler has, by name.
        readers: opens its tokenizer or preprocessing module.

    Raises:
        ArtifactError: the artifact is damaged, or was made for another task.
        GoldenError: the tokenizer does not reproduce the golden rows.
    """
    artifact = read_artifact(folder, stored)
    if artifact.task not in tasks:
        known = " and ".join(tasks)
        raise ArtifactError(f"{folder} is for the task {artifact.task}, the handler for {known}; {REMEDY}")
    check_files(artifact)
    opened = OpenedArtifact(artifact, read_golden_rows(folder), readers(artifact))
    check_tokenizer(opened.golden, opened.reader, max_sequence_length(artifact.shapes))
    return opened


class Member:
    """A model that is ready to serve.

    Args:
        opened: from `open_artifact`.
        settings: how to serve it.
        task: its task.
        runtime: loads its graphs.
        budget_s: the seconds for timing its graphs.

    Attributes:
        artifact, reader: of `opened`.
        settings: the argument.
        task: the argument, with the fields of instances that the model defines itself.
        name: the model's name.
        graphs: its graphs, which have passed the golden rows.
        parity: the largest difference from the golden outputs.
        times: milliseconds of one call of each graph.
        costs: estimates for its requests.
        defaults: the model's defaults for request parameters.

    Raises:
        ArtifactError: a graph cannot be loaded, or the parameters in the settings do not fit the model.
        GoldenError: a graph does not reproduce the golden rows.
    """

    def __init__(
        self,
        opened: OpenedArtifact,
        settings: MemberSettings,
        task: Task,
        runtime: Runtime,
        budget_s: float,
    ) -> None:
        artifact, golden, self.reader = opened
        self.artifact, self.settings = artifact, settings
        field_names = artifact.signature.fields
        self.task = replace(task, fields=required_fields(field_names)) if field_names else task
        self.name = artifact.name
        self.defaults = default_parameters(task, artifact, settings.parameters)
        streams = load_graphs(runtime, artifact.path, artifact.graphs, artifact.signature)
        self.graphs = ModelGraphs(streams, artifact.signature)
        self.parity = check_graphs(streams[0], golden, artifact.signature, artifact.tolerance)
        self.times = time_graphs(streams, artifact.signature, budget_s)
        self.costs = Costs(self.times)
        self._max_length = max_sequence_length(artifact.shapes)

    def window(self, parameters: Mapping[str, Json]) -> Window:
        """How the texts of a request with these parameters are laid out in rows; RequestError if they contradict."""
        self.task.check(parameters)
        window = self.task.window(parameters, self._max_length, self.settings.long_text)
        return window._replace(max_windows=self.settings.limits.windows)

    def texts(self, instance: Instance, parameters: Mapping[str, Json], window: Window) -> list[Text]:
        """The texts that the tokenizer reads for an instance.

        Raises:
            RequestError: the model lacks a parameter's value, or a text that the task makes is not allowed.
        """
        parts = self.task.expand(instance, parameters)
        self.check_rows(len([part for part in parts if part.role != QUERY]))
        for part in parts:
            if part.text_pair is not None and part.text_pair != instance.text_pair:
                check_text(part.text_pair, "a text that the parameters make", self.settings.limits.characters)
        return [self.task.prepare(Text(part, window), parameters, self.artifact.signature) for part in parts]

    def check_rows(self, rows: int) -> None:
        """Refuse a request with more rows than the limits allow."""
        limit = self.settings.limits.instances
        if rows > limit:
            raise RequestError("TooManyRows", f"the request makes {rows} rows; at most {limit} are allowed")

    def tokens(self, text: Text, special: bool, room: int) -> Answered | RequestError:
        """The tokens of a text as an answer; an error if there are more than `room`.

        See `handlers.worker.request.protocols.tokens`.
        """
        try:
            tokens, is_long = self.reader.tokens(text, special, room)
            return Answered(tokens, is_long and text.window.rule != "window", len(tokens))
        except Exception as error:
            return request_error(error)

    def check_tokens(self, tokens: int) -> None:
        """Refuse a request whose rows have more tokens together than the limits allow."""
        limit = self.settings.limits.tokens
        if tokens > limit:
            raise RequestError("TooMuchWork", f"the request has {tokens} tokens; at most {limit} are allowed")

    def answer(
        self,
        instance: Instance,
        tokenized: Tokenized,
        results: Sequence[Outputs | RequestError],
        parameters: Mapping[str, Json],
    ) -> Answered | RequestError:
        """The answer to an instance, from the outputs of its rows."""
        outputs = []
        for result in results:
            if isinstance(result, RequestError):
                return result
            if not all(np.isfinite(output).all() for output in result):
                return RequestError("NotFinite", "the model returned NaN or infinity")
            outputs.append(result)
        try:
            example = Example(instance, tokenized, outputs, parameters)
            answer = self.task.answer(example, self.artifact.signature, self.reader)
            return Answered(answer, tokenized.truncated, sum(len(row.ids) for row in tokenized.rows))
        except Exception as error:
            return request_error(error)


def shared_readers() -> Readers:
    """Opens tokenizers and preprocessing modules, each distinct one once."""
    opened: dict[tuple[Path, str, tuple[str, ...]], RowReader] = {}

    def reader_of(artifact: Artifact) -> RowReader:
        signature = artifact.signature
        key = artifact.path(reader_file(signature)).resolve(), signature.truncation_side, tuple(signature.tensors)
        if key not in opened:
            opened[key] = open_reader(artifact.path, signature)
        return opened[key]

    return reader_of
