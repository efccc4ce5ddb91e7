"""The largest requests that a model may get, made of texts with which it was compiled."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from handlers.worker.members.golden import read_golden_rows
from handlers.worker.tasks import TASKS
from handlers.worker.values import Instance
from marina.bench.load.payload import documents_of
from marina.compiler.examples import rows_of_text
from marina.spec import Spec

LENGTH_SHARE = 0.8  # of the longest text that a request may have


class LargestRequests:
    """The largest requests of a model, of texts with which it was compiled.

    Args:
        spec: the spec of the model.
        artifact: its artifact.
        bundle: whether requests name the model.
    """

    def __init__(self, spec: Spec, artifact: Path, bundle: bool) -> None:
        fields, limits = spec.instance_fields, spec.serving
        rows = read_golden_rows(artifact)
        # where requests have one text, the worker adds the second, such as the hypothesis of a label
        instances = [row.instance if len(fields.names) > 1 else Instance(row.instance.text) for row in rows]
        documents = documents_of(instances, fields)
        parameters = {**TASKS[spec.task].example_parameters, **spec.parameters}
        self._fields: dict[str, Any] = {"parameters": parameters} if parameters else {}
        self._fields |= {"model": spec.name} if bundle else {}
        longest = LENGTH_SHARE * limits.max_characters
        self._documents = [document for document in documents if _length(document) < longest] or documents[:1]
        self._longest = max(self._documents, key=_length)
        body_times = limits.max_body_bytes / len(json.dumps(self._longest))
        self.max_times = max(
            1, int(LENGTH_SHARE * min(limits.max_characters / max(1, _length(self._longest)), body_times))
        )
        tokens = sum(len(row.row.ids) for row in rows) / len(rows) * rows_of_text(spec)
        self.max_texts = max(1, min(limits.max_instances, int(limits.max_tokens / tokens)))

    def many(self, count: int, number: int) -> bytes:
        """A request with so many texts; those of other numbers have other texts."""
        documents = itertools.islice(itertools.cycle(self._documents), count)
        return self._body([_varied(document, f"{number}-{index}") for index, document in enumerate(documents)])

    def long(self, times: int, number: int) -> bytes:
        """A request with the longest text, so many times in a row; those of other numbers have other texts."""
        return self._body([_varied(self._longest, str(number), times)])

    def _body(self, inputs: list[Any]) -> bytes:
        return json.dumps({"inputs": inputs, **self._fields}).encode()


def _length(document: Any) -> int:
    """The characters of its longest text."""
    return max(map(len, document.values())) if isinstance(document, dict) else len(document)


def _varied(document: Any, words: str, times: int = 1) -> Any:
    """A document that equals no other, so that it is computed; its longest text can be so many times as long."""
    if isinstance(document, dict):
        longest = max(document, key=lambda name: len(document[name]))
        return {name: _varied(text, words, times if name == longest else 1) for name, text in document.items()}
    return f"{words} " + " ".join([document] * times)
