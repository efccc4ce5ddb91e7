"""Examples that are longer than a model reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from handlers.worker.archive.artifact import read_artifact
from handlers.worker.archive.signature import DOCUMENT, Role
from handlers.worker.values import Instance
from marina.compiler import compile_model
from marina.compiler.lengths import count_tokens, share_too_long, too_long_line
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import WORDS, no_progress


def test_the_share_of_examples_that_are_too_long(project: Project, add_tiny: Callable[..., Path]) -> None:
    texts = [" ".join(WORDS[:count]) for count in (2, 3, 14, 14)]  # and two special tokens each
    (project.root / "texts.csv").write_text("text\n" + "\n".join(texts) + "\n")
    path = add_tiny("m", task="text-classification", shapes={"exact": ["1x8", "2x15"]}, examples="texts.csv")
    spec = read_spec(path)
    artifact = read_artifact(compile_model(spec, project, no_progress).folder)
    share = share_too_long(artifact, spec, project.root)
    assert share == 0.5
    assert too_long_line(share, artifact, spec).startswith(
        "50.0% of the examples are longer than 15 tokens, and the model reads their beginning; "
    )
    (project.root / "texts.csv").write_text("text\n" + texts[0] + "\n")
    assert share_too_long(artifact, spec, project.root) == 0
    assert share_too_long(artifact, spec.model_copy(update={"examples": None}), project.root) == 0


def test_texts_that_are_longer_than_their_role_count_as_they_are_read(
    project: Project, add_tiny: Callable[..., Path]
) -> None:
    spec = read_spec(add_tiny("m", task="text-classification", shapes={"exact": ["1x16"]}))
    artifact = read_artifact(compile_model(spec, project, no_progress).folder)
    instances = [Instance(" ".join(WORDS[:count])) for count in (2, 14, 20)]  # and two special tokens each
    assert count_tokens(artifact, instances) == [4, 16, 22]
    roles = {DOCUMENT: Role(None, 12, None, ())}
    with_role = replace(artifact, signature=replace(artifact.signature, roles=roles))
    assert count_tokens(with_role, instances) == [4, 12, 12]
