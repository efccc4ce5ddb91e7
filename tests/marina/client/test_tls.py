import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from marina import Client
from marina.errors import MarinaError, UnreachableError
from tests.marina.client.servers import Certificate, HttpAnswer, grpc_server, http_server, make_certificate

TEXTS = ["a text"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def https_address(certificate: Certificate) -> Iterator[str]:
    with http_server(lambda _: HttpAnswer(200, "application/json", b"[1]"), certificate) as address:
        yield address


@pytest.fixture
def grpcs_address(certificate: Certificate) -> Iterator[str]:
    with grpc_server(lambda *_: b"[1]", certificate) as address:
        yield address


def test_https_with_a_private_authority(
    https_address: str, certificate: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (certificate.file, str(certificate.file)):
        with Client.http(f"https://{https_address}", timeout_s=10, certificates=path) as client:
            assert client.predict("m", TEXTS) == [1]
    # what is given counts more than the environment, which a session of requests reads for other hosts than this
    other = make_certificate(tmp_path)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(other.file))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("marina.client.transport.LOOPBACK", ())
    with Client.http(f"https://{https_address}", timeout_s=10, certificates=certificate.file) as client:
        assert client.predict("m", TEXTS) == [1]


def test_https_trusts_no_stranger(https_address: str, tmp_path: Path) -> None:
    for certificates in (None, make_certificate(tmp_path).file):
        with (
            Client.http(f"https://{https_address}", timeout_s=10, retry=False, certificates=certificates) as client,
            pytest.raises(UnreachableError, match=f"no answer from https://{https_address}"),
        ):
            client.predict("m", TEXTS)


def test_certificates_over_plain_http_are_a_mistake(certificate: Certificate) -> None:
    with pytest.raises(MarinaError, match=r"http://127\.0\.0\.1:8080: certificates are for TLS.*write https://"):
        Client.http("http://127.0.0.1:8080", certificates=certificate.file)


def test_grpc_with_a_private_authority(grpcs_address: str, certificate: Certificate) -> None:
    for path, tls in ((certificate.file, False), (str(certificate.file), True)):
        with Client.grpc(grpcs_address, timeout_s=10, tls=tls, certificates=path) as client:
            assert client.predict("m", TEXTS) == [1]


def test_grpc_trusts_no_stranger(grpcs_address: str, tmp_path: Path) -> None:
    stranger = make_certificate(tmp_path).file
    for client in (
        Client.grpc(grpcs_address, timeout_s=10, retry=False, tls=True),
        Client.grpc(grpcs_address, timeout_s=10, retry=False, certificates=stranger),
        Client.grpc(grpcs_address, timeout_s=10, retry=False),
    ):
        with client, pytest.raises(UnreachableError, match=f"no answer from {grpcs_address}"):
            client.predict("m", TEXTS)


def test_grpc_with_tls_sends_nothing_to_a_plain_server(certificate: Certificate) -> None:
    with grpc_server(lambda *_: b"[1]") as address:
        for client in (
            Client.grpc(address, timeout_s=5, retry=False, tls=True),
            Client.grpc(address, timeout_s=5, retry=False, certificates=certificate.file),
        ):
            with client, pytest.raises(UnreachableError):
                client.predict("m", TEXTS)
        with Client.grpc(address, timeout_s=10) as plain:
            assert plain.predict("m", TEXTS) == [1]


def test_grpc_with_tls_trusts_the_authorities_of_grpc(grpcs_address: str, certificate: Certificate) -> None:
    ask = (
        "import sys; from marina import Client\n"
        "with Client.grpc(sys.argv[1], timeout_s=10, tls=True) as client: print(client.predict('m', ['a text']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask, grpcs_address],
        env={**os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(certificate.file)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "[1]\n", done.stderr


@pytest.mark.parametrize(
    "connect",
    [
        lambda path: Client.http("https://127.0.0.1:9", certificates=path),
        lambda path: Client.grpc("127.0.0.1:9", certificates=path),
    ],
)
def test_a_file_that_holds_no_certificates_is_an_error_with_its_name(
    connect: Callable[[Path], Client], tmp_path: Path
) -> None:
    with pytest.raises(MarinaError, match=r"missing\.pem cannot be read: No such file.*give a PEM file"):
        connect(tmp_path / "missing.pem")
    with pytest.raises(MarinaError, match=r"the certificates .* cannot be read: "):
        connect(tmp_path)
    for content in (b"", b"no certificate", b"\x30\x82\x00\xff"):
        (tmp_path / "wrong.pem").write_bytes(content)
        with pytest.raises(MarinaError, match=r"wrong\.pem holds no certificates; give a PEM file"):
            connect(tmp_path / "wrong.pem")
