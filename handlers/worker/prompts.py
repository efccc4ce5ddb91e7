"""Prompts: texts that a model was trained to see before others, such as "query: "."""

from __future__ import annotations

from collections.abc import Sequence

from handlers.worker.artifact import Artifact
from handlers.worker.errors import RequestError
from handlers.worker.instances import Instance
from handlers.worker.text import quote


def prompted(instance: Instance, name: str | None, artifact: Artifact) -> tuple[Instance, int]:
    """A text with a prompt before it, as the tokenizer reads it, and how many tokens pooling leaves out.

    Args:
        instance: its first text is the one.
        name: of the prompt; None for none.
        artifact: knows its prompts, and what its library does to texts.

    Raises:
        RequestError: it has no such prompt.
    """
    if name is None:
        return instance._replace(text=apply_steps(instance.text, artifact.text_steps)), 0
    if name not in artifact.prompts:
        known = ", ".join(artifact.prompts) or "none"
        raise RequestError("InvalidParameter", f"there is no prompt {quote(name)}; this model has: {known}")
    prompt = artifact.prompts[name]
    return instance._replace(text=apply_steps(prompt.text + instance.text, artifact.text_steps)), prompt.tokens


def apply_steps(text: str, steps: Sequence[str]) -> str:
    """What a model's library does to a text before the tokenizer; see `Artifact.text_steps`."""
    for step in steps:
        text = text.strip() if step == "strip" else text.lower()
    return text
