"""The texts on which graphs are checked: a built-in set, and the spec's own."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

from handlers.worker.instances import Instance
from marina.errors import SpecError
from marina.spec import Spec
from marina.tasks import TASKS

# Of every length from nothing to past 128 tokens, in several scripts.
_SENTENCE = "The committee met again on Tuesday to compare the three offers and asked for a written answer by noon."
BUILT_IN = (
    "",
    "ok",
    "change company address",
    "How do I download the latest version?",
    "I was charged twice in March, please send the corrected invoice to our accounts department.",
    "Senior backend engineer, eight years of Python and Go, led a team of five, M.Sc. from Uppsala, fluent in French.",
    "ALL CAPS!!! and ... punctuation ??? (and brackets) [too] {even} #tags @names 100% $5.99 3.14159",
    "Grüße aus Köln: die Straße ist gesperrt, bitte fahren Sie über die Brücke.",
    "Où puis-je télécharger la mise à jour ? Ça ne marche plus depuis hier.",
    "Не могу войти в личный кабинет, пароль не подходит.",
    "请问如何更改公司的注册地址？",
    "パスワードを忘れました。再設定の方法を教えてください。",
    "كيف يمكنني إلغاء اشتراكي؟",
    "मुझे अपने खाते का पता बदलना है",
    "thanks 👍🏽 that worked 🎉🎉 see you 👩‍💻",
    "def add(a, b):\n\treturn a + b  # x\u00a0y\u200bz",
    " ".join([_SENTENCE] * 2),
    " ".join([_SENTENCE] * 3),
    " ".join([_SENTENCE] * 5),
    " ".join([_SENTENCE] * 8),
)
PAIRS = (
    ("ok", ""),
    ("wireless mouse, black", "black wireless mouse with USB receiver"),
    ("How do I reset my password?", "I cannot remember my password and need a new one."),
    (_SENTENCE, "The group decided on Tuesday that each bidder should reply in writing before midday."),
)
QUESTIONS = ("Who?", "What does it say about money?", "When is that, and where do I have to go for it?")
OWN = 64  # of the spec's own texts, evenly over the file


def read_examples(spec: Spec, root: Path) -> list[Instance]:
    """The built-in texts and up to `OWN` of the spec's own.

    Raises:
        SpecError: the spec's file is missing or lacks a column.
    """
    fields = TASKS[spec.task].fields
    if fields.second_required:
        questions = itertools.cycle(QUESTIONS)
        instances = [Instance("?", "ok"), *(Instance(next(questions), text) for text in BUILT_IN if text)]
    else:
        instances = [Instance(text) for text in BUILT_IN]
    if fields.second and not fields.second_required:
        instances += [Instance(*pair) for pair in PAIRS]
    if spec.examples:
        own = _read_csv(root / spec.examples, spec)
        step = max(1, len(own) // OWN)
        instances += own[::step][:OWN]
    return list(dict.fromkeys(instances))


def _read_csv(path: Path, spec: Spec) -> list[Instance]:
    fields = TASKS[spec.task].fields
    where = f"models/{spec.name}.yaml: examples: {spec.examples}"
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, strict=True))
        return [Instance(row[fields.first], row.get(str(fields.second))) for row in rows]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SpecError(f"{where} cannot be read: {error}") from None
    except KeyError:
        raise SpecError(f"{where} has no column {fields.first!r}") from None
