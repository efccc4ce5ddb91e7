"""The tasks, and the handlers that serve them."""

from __future__ import annotations

from handlers.question_answering import QuestionAnswering
from handlers.sentence_embedding import SentenceEmbedding
from handlers.text_classification import TextClassification
from handlers.token_classification import TokenClassification
from handlers.worker.adapter import Handler

TASKS: dict[str, type[Handler]] = {
    handler.task: handler for handler in (SentenceEmbedding, TextClassification, TokenClassification, QuestionAnswering)
}


def handler_file(task: str) -> str:
    """The file of the handler for a task: "text-classification" is served by text_classification.py."""
    return f"{TASKS[task].__module__.rpartition('.')[2]}.py"
