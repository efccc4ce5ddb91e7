"""Prompts: texts that a model was trained to see before others, such as "query: "."""

from __future__ import annotations

from handlers.worker.artifact import Artifact
from handlers.worker.errors import RequestError
from handlers.worker.instances import Instance
from handlers.worker.text import quote


def prompted(instance: Instance, name: str | None, artifact: Artifact) -> tuple[Instance, int]:
    """A text with a prompt before it, as the tokenizer reads it, and how many tokens pooling leaves out.

    Args:
        instance: its first text is the one.
        name: of the prompt; None for none.
        artifact: knows its prompts.

    Raises:
        RequestError: it has no such prompt.
    """
    if name is None:
        return instance, 0
    if name not in artifact.prompts:
        known = ", ".join(artifact.prompts) or "none"
        raise RequestError("InvalidParameter", f"there is no prompt {quote(name)}; this model has: {known}")
    prompt = artifact.prompts[name]
    return instance._replace(text=prompt.text + instance.text), prompt.tokens
