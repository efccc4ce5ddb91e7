"""Makes `expected.json`: what the pipeline of transformers 4.57.6 answers, the last release that has it.

The model beside it is made where it is missing.

PYTHONPATH=. python tests/data/question_answering/make.py
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import transformers

from tests.conftest import WORDS
from tests.handlers.worker.tasks.architectures import save_model

HERE = Path(__file__).parent
QUESTIONS = ("how do i reset my password?", "who led the team", "ok")
CONTEXTS = (
    "please send it to our account manager.",
    "Senior engineer, led a team of five (python) years; thanks, Köln 100% ok!",
    " ".join(WORDS),
    " ".join([*WORDS, *reversed(WORDS), *WORDS]),
    "The invoice. Send the Invoice, please, the INVOICE of the account manager!",
    " ".join([*WORDS[:9], "Password,", *WORDS[5:25], "password;", *WORDS[::2]]),
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
    {"top_k": 8, "max_answer_len": 5},
    {"top_k": 2, "doc_stride": 20, "max_seq_len": 36, "handle_impossible_answer": True},
)


def main() -> None:
    warnings.simplefilter("ignore")
    folder = HERE / "model"
    if not folder.exists():
        save_model(folder, "bert", "question-answering", seed=5)
    ask = transformers.pipeline("question-answering", model=str(folder))
    cases = []
    for question in QUESTIONS:
        for context in CONTEXTS:
            for options in OPTIONS:
                answer = ask(question=question, context=context, **options)
                cases.append({"question": question, "context": context, "options": options, "answer": answer})
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    text = f'{{"transformers": "{transformers.__version__}", "cases": [\n{lines}\n]}}\n'
    (HERE / "expected.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
