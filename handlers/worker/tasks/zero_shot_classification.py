"""Zero-shot classification: candidate labels of the request, best first, scored by a model of entailment (NLI).

For each label the model reads the text with a hypothesis, such as "This example is sports.". Scores match transformers'
zero-shot-classification pipeline: the softmax of the labels' logits for entailment, or, with multi_label or a single
label, of each label's entailment against its contradiction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from handlers.worker.archive.signature import Signature, label_text
from handlers.worker.errors import RequestError
from handlers.worker.request.parameters import Parameter, flag, integer, word, words
from handlers.worker.request.schema import Fields
from handlers.worker.request.text import quote
from handlers.worker.tasks.activation import activate
from handlers.worker.tasks.base import Example, Parameters, Task
from handlers.worker.tasks.columns import Column, same
from handlers.worker.tasks.text_classification import ranking_columns
from handlers.worker.tokens.tokenizer import RowTokenizer, Text, Window
from handlers.worker.values import Instance, Json

ENTAILMENT = "entail"  # how the label of the class begins, as transformers' pipeline looks for it
TEMPLATE = "This example is {}."
PARAMETERS: Mapping[str, Parameter] = {
    "candidate_labels": words([]),
    "hypothesis_template": word(TEMPLATE),
    "multi_label": flag(default=False),
    "top_k": integer(None, minimum=1, null=True),
}


def window(_: Parameters, max_length: int, long_text: str) -> Window:
    """Hypotheses are never cut."""
    return Window(max_length, long_text, strategy="only_first", empty_pair=True)


def prepare(text: Text, _: Parameters, signature: Signature) -> Text:
    """The text; RequestError if the model has no class for entailment."""
    (head,) = signature.heads.values()
    if entailment_of(head.labels) is None:
        raise RequestError("InvalidParameter", f"no label of the model begins with {ENTAILMENT}")
    return text


def check(parameters: Parameters) -> None:
    """Refuse missing labels, a label that is empty or there twice, and a template without a place for the label."""
    labels, template = parameters["candidate_labels"], parameters["hypothesis_template"]
    if not labels:
        raise RequestError(
            "InvalidParameter",
            'candidate_labels: name the labels to choose from, such as ["billing"], in the request, or in the spec '
            "under parameters",
        )
    if len(set(labels)) < len(labels) or not all(labels):
        raise RequestError("InvalidParameter", "candidate_labels: labels must not be empty, and differ from each other")
    if template is None or template.count("{}") != 1 or set(template.replace("{}", "")) & set("{}"):
        raise RequestError(
            "InvalidParameter", f"hypothesis_template: write {{}} once, for the label, as in {quote(TEMPLATE)}"
        )


def expand(instance: Instance, parameters: Parameters) -> list[Instance]:
    """The text with the hypothesis of each label."""
    template = parameters["hypothesis_template"]
    return [instance._replace(text_pair=template.replace("{}", label)) for label in parameters["candidate_labels"]]


def answer(example: Example, signature: Signature, _: RowTokenizer) -> Json:
    labels, several = example.parameters["candidate_labels"], example.parameters["multi_label"]
    logits = np.array([outputs[0] for outputs in example.outputs], dtype=np.float64)  # (labels, classes)
    (head,) = signature.heads.values()
    entailment = entailment_of(head.labels)
    assert entailment is not None  # `prepare` has refused others
    if several or len(labels) == 1:
        contradiction = len(head.labels) - 1 if entailment == 0 else 0
        scores = activate(logits[:, entailment] - logits[:, contradiction], "sigmoid")
    else:
        scores = activate(logits[:, entailment], "softmax")
    order = np.argsort(-scores, kind="stable")[: example.parameters["top_k"]]
    return [{"label": labels[index], "score": float(scores[index])} for index in order.tolist()]


def entailment_of(labels: Sequence[Json]) -> int | None:
    """The number of the class that says that the text entails the hypothesis; None if there is none, or no other."""
    named = (number for number, label in enumerate(labels) if label_text(label).lower().startswith(ENTAILMENT))
    return next(named, None) if len(labels) > 1 else None


def columns(_: Signature, parameters: Parameters) -> list[Column]:
    """The best label with its score; with top_k, the ranking too."""
    return ranking_columns("", same, several=(parameters["top_k"] or 1) > 1)


TASK = Task(
    name="zero-shot-classification",
    fields=Fields("text"),
    parameters=PARAMETERS,
    answer=answer,
    columns=columns,
    window=window,
    prepare=prepare,
    check=check,
    expand=expand,
    example_parameters={"candidate_labels": ["billing", "delivery", "a technical problem"]},
)
