"""Makes `expected.json` and the model beside it, with a transformers that still has the pipeline (4.x).

PYTHONPATH=. python tests/data/question_answering/make.py
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

from transformers import pipeline

from tests.conftest import WORDS
from tests.handlers.worker.architectures import save_model

HERE = Path(__file__).parent
QUESTIONS = ("how do i reset my password?", "who led the team", "ok")
CONTEXTS = (
    "please send it to our account manager.",
    "Senior engineer, led a team of five (python) years; thanks, Köln 100% ok!",
    " ".join(WORDS),
    " ".join([*WORDS, *reversed(WORDS), *WORDS]),
)
OPTIONS = (
    {},
    {"top_k": 4},
    {"top_k": 3, "max_answer_len": 3},
    {"top_k": 5, "handle_impossible_answer": True},
    {"handle_impossible_answer": True},
    {"top_k": 2, "align_to_words": False},
    {"top_k": 3, "doc_stride": 8, "max_seq_len": 40},
    {"top_k": 12},
)


def main() -> None:
    warnings.simplefilter("ignore")
    folder = save_model(HERE / "model", "bert", "question-answering", seed=5)
    ask = pipeline("question-answering", model=str(folder))
    cases = []
    for question in QUESTIONS:
        for context in CONTEXTS:
            for options in OPTIONS:
                answer = ask(question=question, context=context, **options)
                cases.append({"question": question, "context": context, "options": options, "answer": answer})
    (HERE / "expected.json").write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
