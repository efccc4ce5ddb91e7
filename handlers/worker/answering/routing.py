"""Reads bodies as requests, and finds the models that each request is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from handlers.worker.answering import pipeline
from handlers.worker.answering.chain import ChainedRequest, is_chained, read_chain
from handlers.worker.answering.pipeline import Part
from handlers.worker.archive.contents import Contents
from handlers.worker.errors import RequestError, request_error
from handlers.worker.members.member import Member
from handlers.worker.request.body import Body, decode, decode_lines, has_lines
from handlers.worker.request.protocols import read_request
from handlers.worker.request.selection import select


class RoutedRequest(NamedTuple):
    """A request: its parts by the names of their models; an error if a part cannot be read.

    by_model is true if the answer has an entry for each model.
    """

    parts: Mapping[str, Part | RequestError]
    by_model: bool

    def readable(self) -> list[Part]:
        return [part for part in self.parts.values() if isinstance(part, Part)]


class Lines(NamedTuple):
    """A body of JSON Lines: the request on each line, or the error if it cannot be read."""

    requests: list[RoutedRequest | ChainedRequest | RequestError]

    def readable(self) -> list[Part]:
        return [part for line in self.requests if not isinstance(line, RequestError) for part in line.readable()]


ReadRequest = RoutedRequest | ChainedRequest | Lines


def chains_of(request: ReadRequest) -> list[ChainedRequest]:
    """The requests for chains among a request or its lines."""
    requests = request.requests if isinstance(request, Lines) else [request]
    return [each for each in requests if isinstance(each, ChainedRequest)]


class Router:
    """Reads the bodies of an archive's requests.

    Args:
        contents: the contents of the archive.
        members: the models that are served.
        failures: the errors of members of a bundle that cannot be served, by name.
    """

    def __init__(self, contents: Contents, members: Sequence[Member], failures: Mapping[str, Exception]) -> None:
        self._contents = contents
        self._names = list(contents.folders)
        self._members = {member.name: member for member in members}
        self._failures = failures
        limits = [member.settings.limits for member in members]
        self._body_bytes = max(limit.body_bytes for limit in limits)
        self._lines = max(limit.instances for limit in limits)

    def read(self, body: Any, headers: Mapping[str, str]) -> RoutedRequest | ChainedRequest | Lines | RequestError:
        """Read a body.

        Args:
            body: bytes, a text, or JSON that the host has decoded.
            headers: of the request, with lower-case names.

        Raises:
            RequestError: the body cannot be read.
        """
        if has_lines(headers):
            lines = decode_lines(body, headers, self._body_bytes, self._lines)
            return Lines([line if isinstance(line, RequestError) else self._route(line) for line in lines])
        return self._route(decode(body, headers, self._body_bytes))

    def _route(self, body: Body) -> RoutedRequest | ChainedRequest | RequestError:
        if not self._contents.bundle:
            return RoutedRequest({self._contents.name: self._part(self._contents.name, body)}, by_model=False)
        try:
            if self._contents.chain and is_chained(body.value, self._contents.name):
                return self._chained(body)
            selected, by_model = select(body, self._names)
        except Exception as error:
            return request_error(error)
        return RoutedRequest({name: self._part(name, selection) for name, selection in selected.items()}, by_model)

    def _chained(self, body: Body) -> ChainedRequest | RequestError:
        for name in self._contents.chain:
            if name in self._failures:
                return _model_failed(name)
        return read_chain(body, [self._members[name] for name in self._contents.chain])

    def _part(self, name: str, body: Body) -> Part | RequestError:
        if name in self._failures:
            return _model_failed(name)
        member = self._members[name]
        try:
            request = read_request(body, member.task, member.settings.limits, member.defaults)
        except Exception as error:
            return request_error(error)
        return pipeline.prepare(member, request)


def _model_failed(name: str) -> RequestError:
    return RequestError("ModelFailed", f"the model {name} did not start; the worker's log says why")
