"""Tokenizes lists of instances."""

from collections.abc import Sequence

from handlers.worker.errors import RequestError
from handlers.worker.tokens.reader import RowReader
from handlers.worker.tokens.tokenizer import Text, Tokenized, Window
from handlers.worker.values import Instance


def encode(
    reader: RowReader, instances: Sequence[Instance], windows: Sequence[Window], offsets: bool = False
) -> list[Tokenized | RequestError]:
    texts = {number: Text(*text) for number, text in enumerate(zip(instances, windows, strict=True))}
    tokenized = reader.encode(texts, offsets)
    return [tokenized[number] for number in texts]
