"""Prompts: texts that a model was trained to see before others, such as "query: "."""

from __future__ import annotations

from collections.abc import Sequence

from handlers.worker.artifact import Signature
from handlers.worker.errors import RequestError
from handlers.worker.request.text import quote
from handlers.worker.rows.tokenizer import RowTokenizer, Tokenized, Window
from handlers.worker.values import Instance, Row


def prompted(instance: Instance, name: str | None, signature: Signature) -> tuple[Instance, int]:
    """A text with a prompt before it, as the tokenizer reads it, and how many tokens pooling leaves out.

    Args:
        instance: its first text is the one.
        name: of the prompt; None for none.
        signature: knows the model's prompts.

    Raises:
        RequestError: it has no such prompt.
    """
    if name is None:
        return instance, 0
    if name not in signature.prompts:
        known = ", ".join(signature.prompts) or "none"
        raise RequestError("InvalidParameter", f"there is no prompt {quote(name)}; this model has: {known}")
    prompt = signature.prompts[name]
    return instance._replace(text=prompt.text + instance.text), prompt.tokens


def default_rows(
    instances: Sequence[Instance], signature: Signature, tokenizer: RowTokenizer, max_length: int, rule: str
) -> list[Row]:
    """The rows of texts as the model reads them where a request names no prompt; those without one are left out.

    Args:
        instances: texts.
        signature: the model's.
        tokenizer: its.
        max_length: tokens that a row holds.
        rule: for longer texts, as `Window` has it: "truncate", or "reject" to leave them out.
    """
    prepared = [prompted(instance, signature.default_prompt, signature) for instance in instances]
    windows = [Window(max_length, rule, prompt_tokens=tokens) for _, tokens in prepared]
    found = tokenizer.encode([instance for instance, _ in prepared], windows)
    return [row for tokenized in found if isinstance(tokenized, Tokenized) for row in tokenized.rows]
