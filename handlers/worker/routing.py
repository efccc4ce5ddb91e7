"""Reads bodies as requests, and finds the models that each request is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from handlers.worker import pipeline
from handlers.worker.contents import Contents
from handlers.worker.errors import RequestError
from handlers.worker.member import Member
from handlers.worker.pipeline import Inference
from handlers.worker.request.body import Body, decode, decode_lines, has_lines
from handlers.worker.request.instances import Request
from handlers.worker.request.selection import select


class Part(NamedTuple):
    """What a request wants of one model."""

    member: Member
    request: Request
    inferences: Sequence[Inference]


class RoutedRequest(NamedTuple):
    """A request: for each model that it is for, by name, its part or why there is none.

    several is true if the answer is by model too.
    """

    parts: Mapping[str, Part | RequestError]
    several: bool

    def readable(self) -> list[Part]:
        return [part for part in self.parts.values() if isinstance(part, Part)]


class Lines(NamedTuple):
    """A body of JSON Lines: the request on each line, or why it cannot be read."""

    requests: list[RoutedRequest | RequestError]

    def readable(self) -> list[Part]:
        return [part for line in self.requests if isinstance(line, RoutedRequest) for part in line.readable()]


class Router:
    """Reads the bodies of an archive's requests.

    Args:
        contents: what the archive holds.
        members: its models.
        failures: why others of a bundle cannot be served, by name.
    """

    def __init__(self, contents: Contents, members: Sequence[Member], failures: Mapping[str, Exception]) -> None:
        self._contents = contents
        self._names = list(contents.folders)
        self._members = {member.name: member for member in members}
        self._failures = failures
        limits = [member.settings.limits for member in members]
        self._body_bytes = max(limit.body_bytes for limit in limits)
        self._lines = max(limit.instances for limit in limits)

    def read(self, body: Any, headers: Mapping[str, str]) -> RoutedRequest | Lines | RequestError:
        """Read a body.

        Args:
            body: bytes, a text, or what the host has made of JSON.
            headers: of the request, with lower-case names.

        Raises:
            RequestError: the body cannot be read.
        """
        if has_lines(headers):
            lines = decode_lines(body, headers, self._body_bytes, self._lines)
            return Lines([line if isinstance(line, RequestError) else self._route(line) for line in lines])
        return self._route(decode(body, headers, self._body_bytes))

    def _route(self, body: Body) -> RoutedRequest | RequestError:
        if not self._contents.bundle:
            return RoutedRequest({self._contents.name: self._part(self._contents.name, body)}, several=False)
        try:
            selected, several = select(body, self._names)
        except RequestError as error:
            return error
        return RoutedRequest({name: self._part(name, selection) for name, selection in selected.items()}, several)

    def _part(self, name: str, body: Body) -> Part | RequestError:
        if name in self._failures:
            return RequestError("ModelFailed", f"the model {name} did not start; the worker's log says why")
        member = self._members[name]
        request = member.read(body)
        if isinstance(request, RequestError):
            return request
        return Part(member, request, pipeline.prepare(member, request))
