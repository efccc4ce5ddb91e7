"""Prompts: texts that a model was trained to see before its inputs, such as "query: "."""

from __future__ import annotations

from collections.abc import Sequence

from handlers.worker.archive.signature import DOCUMENT, Signature
from handlers.worker.errors import RequestError
from handlers.worker.request.text import quote
from handlers.worker.tokens.reader import RowReader
from handlers.worker.tokens.tokenizer import Text, Tokenized, Window
from handlers.worker.values import Instance, Row


def add_prompt(text: Text, name: str | None, signature: Signature) -> Text:
    """Prepend a prompt to a text, and record how many of its tokens pooling excludes.

    Args:
        text: the prompt is added to its first text.
        name: the name of the prompt; None for no prompt.
        signature: contains the model's prompts.

    Raises:
        RequestError: the model has no prompt of this name.
    """
    if name is None:
        return text
    if name not in signature.prompts:
        known = ", ".join(signature.prompts) or "none"
        raise RequestError("InvalidParameter", f"there is no prompt {quote(name)}; this model has: {known}")
    prompt = signature.prompts[name]
    instance = text.instance._replace(text=prompt.text + text.instance.text)
    return Text(instance, text.window._replace(prompt_tokens=prompt.tokens))


def in_role(text: Text, signature: Signature) -> Text:
    """A text with the prompt, the length and the filling of its role; a text without a role is a document.

    Raises:
        RequestError: no shape has room for the tokens that a query is filled up to.
    """
    role, longest = signature.roles[text.instance.role or DOCUMENT], text.window.max_length
    if role.filling is not None and role.filling.length > longest:
        raise RequestError(
            "TextTooLong",
            f"queries have {role.filling.length} tokens in this model, and its longest shape has {longest}",
        )
    text = add_prompt(text, role.prompt, signature)
    return text._replace(window=text.window._replace(max_length=min(longest, role.max_length), filling=role.filling))


def default_rows(
    instances: Sequence[Instance], signature: Signature, tokenizer: RowReader, max_length: int, rule: str
) -> list[Row]:
    """The rows of texts, read as in a request that names no prompt; texts without a row are left out.

    Args:
        instances: the texts.
        signature: the model's signature.
        tokenizer: the model's tokenizer.
        max_length: the maximum number of tokens in a row.
        rule: for longer texts, with the values of `Window`: "truncate", or "reject" to leave them out.
    """
    texts = {}
    for number, instance in enumerate(instances):
        text = Text(instance, Window(max_length, rule))
        texts[number] = (
            in_role(text, signature) if signature.roles else add_prompt(text, signature.default_prompt, signature)
        )
    tokenized = tokenizer.encode(texts)
    rows_of = (tokenized[number] for number in texts)
    return [row for text in rows_of if isinstance(text, Tokenized) for row in text.rows]
