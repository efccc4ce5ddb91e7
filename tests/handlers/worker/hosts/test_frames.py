"""Messages between a front and its workers come as they were sent, or not at all."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.hosts.frames import Message, read_message

FIELDS = st.dictionaries(st.text().filter(lambda name: name != "sizes"), st.integers(-(2**53), 2**53) | st.text())


@given(st.lists(st.tuples(FIELDS, st.lists(st.binary())), max_size=3))
def test_messages_come_as_they_were_sent(sent: list[tuple[dict[str, int | str], list[bytes]]]) -> None:
    stream = io.BytesIO(b"".join(Message(*message).as_bytes() for message in sent))
    received = [read_message(stream.read) for _ in sent]
    assert received == [Message(*message) for message in sent]
    assert read_message(stream.read) is None
