"""Undoes the Content-Encoding of a body, within bounds: a few bytes can stand for gigabytes."""

from __future__ import annotations

import zlib

from handlers.worker.errors import RequestError

MEMBERS = 100  # of a gzip file; each costs a copy of those after it
# how zlib names the formats; what HTTP calls deflate is zlib's format, and some clients send it bare
WINDOWS = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}


def decompress(body: bytes, encoding: str, most: int) -> bytes:
    """The body as it was before it was compressed.

    Args:
        body: as it was sent.
        encoding: the header Content-Encoding.
        most: bytes that it may have.

    Raises:
        RequestError: the encoding is not known, the body is not of it, or it has too many bytes.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return body
    if name not in WINDOWS:
        raise RequestError("UnknownEncoding", "the Content-Encoding is not gzip or deflate")
    for bits in WINDOWS[name]:
        content = _inflate(body, bits, most)
        if content is None:
            continue
        if len(content) > most:
            raise RequestError("BodyTooLarge", f"the body has more bytes than the {most} allowed once it is unpacked")
        return content
    raise RequestError("InvalidEncoding", f"the body is not {name}, as its Content-Encoding says")


def _inflate(body: bytes, bits: int, most: int) -> bytes | None:
    """At most one byte more than may be; None for another format, an end that is missing, or too many members."""
    content = b""
    for _ in range(MEMBERS):
        member = zlib.decompressobj(bits)
        try:
            content += member.decompress(body, most + 1 - len(content))
        except zlib.error:
            return None
        if len(content) > most:
            return content
        if not member.eof:
            return None
        body = member.unused_data if bits > 15 else b""  # a gzip file may have several members
        if not body:
            return content
    return None
