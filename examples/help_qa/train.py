"""Trains the demonstration model `help-qa`: finds the answer to a question on a help page, if it has one.

Fine-tunes on the pages of `train.jsonl`, prints the exact matches and F1 on the held-out `test.jsonl`,
and writes an ordinary Hugging Face folder. Run it from the repository root:

    python -m examples.help_qa.train
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForQuestionAnswering

from examples.training import WEIGHTS, begin, fit, save

HERE = Path(__file__).parent
MAX_TOKENS = 384  # per window at inference
TRAINING_TOKENS = 144  # per window in training; fewer, to reduce computation
SHARED_TOKENS = 48  # overlap of two windows in training
LONGEST_ANSWER = 30  # tokens


class Question(NamedTuple):
    """A question about a page; the answer is None if the page does not contain one."""

    question: str
    context: str
    answer: str | None


def read(path: Path) -> list[Question]:
    """The questions of a data file."""
    pages = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [Question(q["question"], page["context"], q["answer"]) for page in pages for q in page["questions"]]


def target(encoding: Any, question: Question) -> tuple[int, int]:
    """The first and last token of the answer; (0, 0) if there is no answer, or if it was truncated."""
    if question.answer is None:
        return 0, 0
    start = question.context.index(question.answer)
    end = start + len(question.answer)
    inside = [
        i
        for i, (offsets, sequence) in enumerate(zip(encoding.offsets, encoding.sequence_ids, strict=True))
        if sequence == 1 and offsets[0] < end and offsets[1] > start
    ]
    return (inside[0], inside[-1]) if inside else (0, 0)


def window(tokenizer: Any, question: Question) -> tuple[Any, tuple[int, int]]:
    """The first window of a page that contains the answer, else its first window, and the answer's tokens in it."""
    windows = tokenizer(
        *(question.question, question.context),
        truncation="only_second",
        max_length=TRAINING_TOKENS,
        stride=SHARED_TOKENS,
        return_overflowing_tokens=True,
    )
    placed = [(encoding, target(encoding, question)) for encoding in windows.encodings]
    return next((each for each in placed if each[1] != (0, 0)), placed[0])


def f1(one: str, other: str) -> float:
    """The F1 score of the words that two answers share; 1 if both are empty."""
    words, expected = one.lower().split(), other.lower().split()
    if not words or not expected:
        return float(words == expected)
    common = sum((Counter(words) & Counter(expected)).values())
    return 2 * common / (len(words) + len(expected))


def main() -> None:
    tokenizer = begin()
    questions = read(HERE / "train.jsonl")
    model = AutoModelForQuestionAnswering.from_pretrained(WEIGHTS, trust_remote_code=False)
    model.bert.embeddings.requires_grad_(False)

    # the lower half of the encoder is not trained
    for layer in model.bert.encoder.layer[: len(model.bert.encoder.layer) // 2]:
        layer.requires_grad_(False)
    windows = [window(tokenizer, question) for question in questions]

    def loss(chosen: list[int]) -> torch.Tensor:
        encodings = [windows[i][0] for i in chosen]
        ids = {"input_ids": [e.ids for e in encodings], "token_type_ids": [e.type_ids for e in encodings]}
        batch = tokenizer.pad(ids, return_tensors="pt")
        targets = torch.tensor([windows[i][1] for i in chosen])
        return model(**batch, start_positions=targets[:, 0], end_positions=targets[:, 1]).loss

    def find(question: Question) -> str:
        texts = [question.question], [question.context]
        batch = tokenizer(*texts, truncation="only_second", max_length=MAX_TOKENS, return_tensors="pt")
        with torch.no_grad():
            output = model(**batch)
        encoding = batch.encodings[0]
        outside = torch.tensor([sequence != 1 for sequence in encoding.sequence_ids])
        outside[0] = False
        start = output.start_logits[0].masked_fill(outside, -1e4).softmax(0)
        end = output.end_logits[0].masked_fill(outside, -1e4).softmax(0)
        spans = torch.outer(start, end).triu().tril(LONGEST_ANSWER - 1)
        none = float(spans[0, 0])
        spans[0] = 0
        first, last = divmod(int(spans.argmax()), len(start))
        if none > float(spans[first, last]):
            return ""
        return question.context[encoding.offsets[first][0] : encoding.offsets[last][1]]

    # without dropout: two passes are too few to learn pages by heart
    model.eval()
    body = [parameter for parameter in model.bert.encoder.parameters() if parameter.requires_grad]
    lengths = [len(encoding.ids) for encoding, _ in windows]
    fit("help-qa", body, model.qa_outputs.parameters(), lengths, loss, epochs=2, learning_rate=4e-4)

    test = read(HERE / "test.jsonl")
    pairs = [(find(question), question.answer or "") for question in test]
    exact = sum(one.lower() == other.lower() for one, other in pairs) / len(pairs)
    overlap = sum(f1(one, other) for one, other in pairs) / len(pairs)
    print(f"held-out answers: exact {exact:.1%}, F1 {overlap:.1%} ({len(pairs)} questions)")
    examples = [{"question": question.question, "context": question.context} for question in test]
    save(model, tokenizer, "help-qa", examples)


if __name__ == "__main__":
    main()
