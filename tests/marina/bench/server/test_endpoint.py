"""The address of a model that is measured."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from marina.bench.load.payload import Payload
from marina.bench.load.transport import encode
from marina.bench.server import endpoint
from marina.bench.server.endpoint import Protocol, check, remote_endpoint
from marina.errors import MarinaError


@pytest.mark.parametrize(
    ("url", "protocol", "host", "port"),
    [
        ("http://server:81", "rest", "server", 81),
        ("server:81", "grpc", "server", 81),
        ("http://server", "rest", "server", 8080),
        ("server", "grpc", "server", 7070),
        ("http://[::1]:81", "rest", "::1", 81),
    ],
)
def test_the_address_of_a_server(url: str, protocol: Protocol, host: str, port: int) -> None:
    target = remote_endpoint(url, "m", protocol, None, None).target
    assert (target.host, target.port) == (host, port)


@pytest.mark.parametrize("url", ["localhost:80800", "http://h:abc", "http://[::1", "ftp://h", "http://", "h/prefix"])
def test_what_is_no_address_is_named(url: str) -> None:
    with pytest.raises(MarinaError, match="is not a server; write http://HOST:PORT"):
        remote_endpoint(url, "m", "rest", None, None)


def test_an_ipv6_host_has_brackets_in_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    remote = remote_endpoint("http://[::1]:9", "m", "rest", None, None)
    assert encode(remote.target, [b"{}"])[0].startswith(b"POST /predictions/m HTTP/1.1\r\nHost: [::1]:9\r\n")
    client = MagicMock()
    monkeypatch.setattr(endpoint, "Client", client)
    check(remote, Payload([b'{"inputs": ["a"]}'], 1, "mix"))
    client.http.assert_called_once_with("http://[::1]:9", None)


def test_tls_is_refused() -> None:
    with pytest.raises(MarinaError, match="speaks no TLS"):
        remote_endpoint("https://h", "m", "rest", None, None)


@pytest.mark.parametrize("missing", ["grpcio", "protobuf"])
def test_without_the_packages_of_grpc_a_message_names_them(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setattr(endpoint, "installed", lambda package: None if package == missing else "1")
    with pytest.raises(MarinaError, match="gRPC needs the packages grpcio and protobuf"):
        check(remote_endpoint("h", "m", "grpc", None, None), Payload([b"{}"], 1, "mix"))
