"""The lengths of texts in tokens, as a compiled model reads them, and how many texts are longer than it reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from handlers.worker.archive.artifact import Artifact
from handlers.worker.rows.plan import max_sequence_length
from handlers.worker.tokens.prompts import default_rows
from handlers.worker.tokens.reader import open_reader
from handlers.worker.values import Instance
from marina.compiler.examples import expand
from marina.spec import Spec
from marina.spec.texts import read_texts

ANY_LENGTH = 1 << 30
FATES = {"truncate": "the model reads their beginning", "reject": "they are refused"}


def count_tokens(artifact: Artifact, instances: Sequence[Instance]) -> list[int]:
    """The number of tokens of each instance, with the model's default prompt; of roles, no more than they read."""
    reader = open_reader(artifact.folder.joinpath, artifact.signature)
    return [len(row.ids) for row in default_rows(instances, artifact.signature, reader, ANY_LENGTH, "truncate")]


def share_too_long(artifact: Artifact, spec: Spec, root: Path) -> float:
    """The share of a spec's examples that are longer than its longest shape; 0 if texts are read in windows.

    Args:
        artifact: the artifact of the spec.
        spec: the spec; without examples, the share is 0.
        root: the project's folder.
    """
    if not spec.examples or spec.long_text not in FATES or spec.preprocess:
        return 0.0
    limit = max_sequence_length(artifact.shapes)
    instances = expand(spec, read_texts(root / spec.examples, spec.instance_fields, spec.examples))
    lengths = count_tokens(artifact, instances)
    return sum(tokens > limit for tokens in lengths) / len(lengths)


def too_long_line(share: float, artifact: Artifact, spec: Spec) -> str:
    """What `share_too_long` means, in a sentence."""
    limit = max_sequence_length(artifact.shapes)
    return (
        f"{share:.1%} of the examples are longer than {limit} tokens, and {FATES[spec.long_text]}; to read more, raise "
        "the longest of the spec's shapes"
    )
