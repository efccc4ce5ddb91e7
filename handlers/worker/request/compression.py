"""Decodes the Content-Encoding of a body, within a size limit: a few bytes can expand to gigabytes."""

from __future__ import annotations

import zlib

from handlers.worker.errors import RequestError

MAX_MEMBERS = 100  # maximum members of a gzip file; each one copies the bytes after it
# zlib's numbers for the formats; HTTP's deflate is zlib's format, and some clients send it without its header
WINDOW_BITS = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}


def decompress(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Decompress a body.

    Args:
        body: the bytes as sent.
        encoding: the header Content-Encoding.
        max_bytes: the maximum number of decompressed bytes.

    Raises:
        RequestError: the encoding is unknown, the body does not have that encoding, or it has too many bytes.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return body
    if name not in WINDOW_BITS:
        raise RequestError("UnknownEncoding", "the Content-Encoding is not gzip or deflate")
    for bits in WINDOW_BITS[name]:
        content = _inflate(body, bits, max_bytes)
        if content is None:
            continue
        if len(content) > max_bytes:
            raise RequestError(
                "BodyTooLarge", f"the body has more bytes than the {max_bytes} allowed once it is unpacked"
            )
        return content
    raise RequestError("InvalidEncoding", f"the body is not {name}, as its Content-Encoding says")


def _inflate(body: bytes, bits: int, max_bytes: int) -> bytes | None:
    """Decompress at most `max_bytes` + 1 bytes; None for another format, a truncated body, or too many members."""
    content = b""
    for _ in range(MAX_MEMBERS):
        member = zlib.decompressobj(bits)
        try:
            content += member.decompress(body, max_bytes + 1 - len(content))
        except zlib.error:
            return None
        if len(content) > max_bytes:
            return content
        if not member.eof:
            return None
        body = member.unused_data if bits > 15 else b""  # a gzip file may have several members
        if not body:
            return content
    return None
