"""The texts on which graphs are checked: a built-in set, and the spec's own."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from handlers.worker.request.parameters import read_parameters
from handlers.worker.tasks import TASKS
from handlers.worker.values import Instance, Json
from marina.errors import CompileError
from marina.spec import Spec
from marina.spec.texts import read_texts

# Texts of every length from zero to more than 128 tokens, in several scripts.
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
MAX_SPEC_TEXTS = 64  # of the spec's texts for parity, spread evenly over the file
MAX_CALIBRATION_TEXTS = 128
MAX_HELD_OUT_TEXTS = 256


class Examples(NamedTuple):
    """Texts by purpose.

    If the spec has no texts of its own, there are none for calibration, and the built-in texts are held out.
    """

    parity: list[Instance]  # every graph is compared with the reference on these
    calibration: list[Instance]  # int8 ranges are calibrated on these
    held_out: list[Instance]  # the answers of lower precisions are judged on these


def read_examples(spec: Spec, root: Path) -> Examples:
    """The built-in texts and the spec's own.

    Raises:
        SpecError: the spec's examples file is missing or lacks a column.
    """
    fields = spec.instance_fields
    if spec.preprocess:
        # every field has a text, and each instance another combination
        rotations = [BUILT_IN[number:] + BUILT_IN[:number] for number in range(len(fields.names))]
        instances = [instance_of(texts) for texts in zip(*rotations, strict=True)]
    elif fields.second_required:
        questions = itertools.cycle(QUESTIONS)
        instances = [Instance("?", "ok"), *(Instance(next(questions), text) for text in BUILT_IN if text)]
    else:
        instances = [Instance(text) for text in BUILT_IN]
    if fields.second and not fields.second_required and not TASKS[spec.task].scripts_only:
        instances += [Instance(*pair) for pair in PAIRS]
    # the parameters of a spec decide how lower precisions are judged, and nothing else of an artifact
    parameters = {} if spec.precision == "f32" else spec.parameters
    rows = len(_expand(spec, instances[:1], parameters))

    def thinned(texts: list[Instance], count: int) -> list[Instance]:
        return _expand(spec, _evenly(texts, max(1, count // rows)), parameters)

    # texts alone fit the shortest shapes too, whatever the parameters add to them
    alone = instances if TASKS[spec.task].example_parameters else []
    instances = list(dict.fromkeys([*alone, *_expand(spec, instances, parameters)]))
    if spec.examples is None:
        return Examples(instances, [], instances)
    where = f"models/{spec.name}.yaml: examples: {spec.examples}"
    texts = list(dict.fromkeys(read_texts(root / spec.examples, fields, where)))
    parity = list(dict.fromkeys([*instances, *thinned(texts, MAX_SPEC_TEXTS)]))
    return Examples(parity, thinned(texts[0::2], MAX_CALIBRATION_TEXTS), thinned(texts[1::2], MAX_HELD_OUT_TEXTS))


def expand(spec: Spec, instances: Sequence[Instance]) -> list[Instance]:
    """What a model reads for instances, with the spec's own parameters, or with examples of them."""
    return _expand(spec, instances, spec.parameters)


def rows_of_text(spec: Spec) -> int:
    """How many rows a model reads for a text of one row, with the spec's parameters."""
    return len(expand(spec, [Instance("x")]))


def _expand(spec: Spec, instances: Sequence[Instance], parameters: Mapping[str, Json]) -> list[Instance]:
    task = TASKS[spec.task]
    variants = [
        read_parameters({**task.example_parameters, **variant, **parameters}, task.parameters, {})
        for variant in task.example_variants
    ]
    turns = itertools.cycle(variants)
    return [part for instance in instances for part in task.expand(instance, next(turns))]


def instance_of(texts: Sequence[str]) -> Instance:
    """An instance with a text for each of its fields."""
    first_text, *other_texts = texts
    return Instance(first_text, other_texts[0] if other_texts else None, tuple(other_texts[1:]))


def _evenly(instances: list[Instance], max_count: int) -> list[Instance]:
    """At most `max_count` instances, spread evenly over the list."""
    return instances[:: -(-len(instances) // max_count)] if instances else []


def too_few(spec: Spec, limit: int, purpose: str) -> CompileError:
    """The error if none of the spec's own texts can be used to calibrate or to judge.

    Args:
        spec: the model's spec.
        limit: the number of tokens that the longest shape holds.
        purpose: "calibrate" or "judge".
    """
    return CompileError(
        f"{spec.name}: examples holds no text of at most {limit} tokens to {purpose} on, which every other one is "
        f"for; give more texts, or use precision: f32"
    )
