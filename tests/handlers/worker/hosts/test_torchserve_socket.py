import socket
import struct
import sys
import threading
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.hosts.torchserve_socket import FUNCTION, MODULE, BufferedReader, install_buffered_reads


def number(value: int) -> bytes:
    return struct.pack("!i", value)


def string(value: bytes) -> bytes:
    return number(len(value)) + value


def message(requests: list[tuple[bytes, dict[bytes, bytes], bytes]]) -> bytes:
    """A batch, as TorchServe writes it."""
    found = b"I"
    for name, headers, body in requests:
        fields = b"".join(string(key) + string(value) for key, value in headers.items())
        found += (
            string(name) + fields + number(-1) + string(b"body") + string(b"text/plain") + string(body) + number(-1)
        )
    return found + number(-1)


requests_of_batches = st.lists(
    st.lists(
        st.tuples(
            st.binary(min_size=1, max_size=8),
            st.dictionaries(st.binary(min_size=1, max_size=8), st.binary(max_size=8), max_size=3),
            st.binary(max_size=200_000) | st.binary(max_size=20),
        ),
        min_size=1,
        max_size=3,
    ),
    min_size=1,
    max_size=3,
)


@given(requests_of_batches, st.lists(st.integers(1, 1000), min_size=1, max_size=5))
def test_torchserve_reads_the_same_messages_however_their_bytes_arrive(
    batches: list[list[tuple[bytes, dict[bytes, bytes], bytes]]], pieces: list[int]
) -> None:
    handler = pytest.importorskip(MODULE)
    sent = b"".join(message(batch) for batch in batches)

    def send(sender: socket.socket) -> None:
        start, turn = 0, 0
        while start < len(sent):
            size = pieces[turn % len(pieces)] if turn < 50 else len(sent)
            sender.sendall(sent[start : start + size])
            start, turn = start + size, turn + 1
        sender.close()

    def read(read_buffer: Any) -> list[Any]:
        here, there = socket.socketpair()
        thread = threading.Thread(target=send, args=(there,))
        thread.start()
        with pytest.MonkeyPatch.context() as patch, here:
            patch.setattr(handler, FUNCTION, read_buffer)
            found = [handler.retrieve_msg(here) for _ in batches]
            with pytest.raises(SystemExit):
                handler.retrieve_msg(here)
        thread.join()
        return found

    found = read(BufferedReader().read)
    assert found == read(getattr(handler, FUNCTION))
    assert [[one["requestId"] for one in batch] for _, batch in found] == [
        [name for name, _, _ in batch] for batch in batches
    ]


def test_a_new_connection_begins_anew() -> None:
    stream = BufferedReader()
    for sent in (b"first", b"other"):
        here, there = socket.socketpair()
        with here, there:
            there.sendall(sent)
            assert stream.read(here, 2) == sent[:2]


def test_torchserves_own_function_is_replaced() -> None:
    module = pytest.importorskip(MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, FUNCTION, getattr(module, FUNCTION))
        assert install_buffered_reads(sys.modules)
        assert getattr(module, FUNCTION).__func__ is BufferedReader.read


def test_other_versions_of_torchserve_are_left_alone() -> None:
    assert not install_buffered_reads({})
    assert not install_buffered_reads({MODULE: ModuleType(MODULE)})
