"""A served model: from the bodies of a batch to their answers, without TorchServe."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from handlers.worker.artifact import REMEDY, TOKENIZER_FILE, Artifact, check_files, read_artifact
from handlers.worker.calls import Outputs, run_calls
from handlers.worker.cores import worker_cores
from handlers.worker.engines import open_engine
from handlers.worker.errors import ArtifactError, RequestError
from handlers.worker.golden import check_graphs, check_tokenizer, read_golden_rows
from handlers.worker.parsing import Body, Instance, Json, Request, parse_request
from handlers.worker.plan import longest, plan
from handlers.worker.settings import Settings
from handlers.worker.tokenizing import Row, RowTokenizer


class Task(Protocol):
    """What one task adds to the worker."""

    task: str
    pairs: bool  # whether an instance may be a pair of texts

    def answer(self, outputs: Outputs, artifact: Artifact) -> Json:
        """The answer for one instance from its row's outputs."""


class Reply(NamedTuple):
    """What is sent back for one request: an HTTP status and a JSON body."""

    status: int
    body: bytes


class Model:
    """An artifact in memory, proven on its golden rows.

    Args:
        folder: the artifact.
        settings: how to serve it.
        task: the task it was made for.

    Raises:
        ArtifactError: the artifact is damaged, or was made for another task.
        GoldenError: a graph or the tokenizer does not reproduce the golden rows.
    """

    def __init__(self, folder: Path, settings: Settings, task: Task) -> None:
        artifact = read_artifact(folder)
        if artifact.task != task.task:
            raise ArtifactError(f"{folder} is for the task {artifact.task}, the handler for {task.task}; {REMEDY}")
        check_files(artifact)
        max_length = longest(artifact.shapes)
        golden = read_golden_rows(folder)
        self._artifact = artifact
        self._task = task
        self._limits = settings.limits
        self._tokenizer = RowTokenizer(
            folder / TOKENIZER_FILE, max_length, settings.long_text, artifact.truncation_side
        )
        check_tokenizer(golden, self._tokenizer)
        engine = open_engine(artifact.engine, worker_cores(settings.core_groups))
        self._graphs = {
            file.shape: engine.load(folder / file.graph, folder / file.weights if file.weights else None)
            for file in artifact.graphs
        }
        self.parity = check_graphs(self._graphs, golden, artifact)

    def reply(self, bodies: Sequence[tuple[Body, str]]) -> list[Reply]:
        """Answer a batch.

        Args:
            bodies: for each request its body and its content type.

        Returns:
            One reply a request, in order. A request that cannot be answered gets a 4xx of its own.
        """
        requests = [self._parse(body, content_type) for body, content_type in bodies]
        instances = [i for request in requests if isinstance(request, Request) for i in request.instances]
        answers = iter(self._answers(instances))
        replies = []
        for request in requests:
            if isinstance(request, Request):
                replies.append(_reply(request, [next(answers) for _ in request.instances]))
            else:
                replies.append(_refusal(request))
        return replies

    def _parse(self, body: Body, content_type: str) -> Request | RequestError:
        try:
            return parse_request(body, content_type, self._task.pairs, self._limits)
        except RequestError as error:
            return error

    def _answers(self, instances: Sequence[Instance]) -> list[Json | RequestError]:
        """Tokenize, plan, call and gather; an instance that fails is its error."""
        answers: list[Any] = list(self._tokenizer.encode(instances))
        places = [place for place, row in enumerate(answers) if isinstance(row, Row)]
        rows: list[Row] = [answers[place] for place in places]
        calls = plan([len(row.ids) for row in rows], self._graphs)
        for place, outputs in zip(places, run_calls(calls, rows, self._graphs, self._artifact)):
            if all(np.isfinite(output).all() for output in outputs):
                answers[place] = self._task.answer(outputs, self._artifact)
            else:
                answers[place] = RequestError("NotFinite", "the model's output is not a number", status=500)
        return answers


def _reply(request: Request, answers: Sequence[Json | RequestError]) -> Reply:
    for number, answer in enumerate(answers):
        if isinstance(answer, RequestError):
            return _refusal(answer, where="" if request.single else f"{request.field}[{number}]: ")
    if request.field == "instances":
        return Reply(200, _dump({"predictions": answers}))
    return Reply(200, _dump(answers[0] if request.single else answers))


def _refusal(error: RequestError, where: str = "") -> Reply:
    """The body of an error, in the fields of TorchServe's own errors."""
    return Reply(error.status, _dump({"code": error.status, "type": error.kind, "message": f"{where}{error}"}))


def _dump(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")
