"""The changes of the code that tests are tried with."""

from __future__ import annotations

import difflib
import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

# where annotations of variables and of parameters are among a node's children
ANNOTATION = {"annassign": 1, "tfpdef": 2}


@dataclass(frozen=True)
class Mutant:
    """A change at one place.

    Attributes:
        file: of this repository, with slashes.
        line: of the change.
        operator: of cosmic-ray, which makes the change.
        occurrence: which of the operator's changes in the file.
    """

    file: str
    line: int
    operator: str
    occurrence: int

    def code(self, root: Path) -> str:
        """The file with the change."""
        source = (root / self.file).read_text(encoding="utf-8")
        return str(mutate_code(source, get_operator(self.operator)(), self.occurrence))

    def difference(self, root: Path) -> str:
        """The changed lines, as diff shows them."""
        before = (root / self.file).read_text(encoding="utf-8").splitlines()
        lines = difflib.unified_diff(before, self.code(root).splitlines(), lineterm="", n=0)
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def draw(root: Path, files: Iterable[str], number: int, seed: int) -> list[Mutant]:
    """Draw mutants: each place is as likely as any other, and so is each change of a place.

    Otherwise a `+`, for which eleven others can stand, would be tried far more often than a comparison.
    """
    places = defaultdict[tuple[str, object], list[Mutant]](list)
    for file in files:
        for position, mutant in _mutants(root, file):
            places[file, position].append(mutant)
    chance = random.Random(seed)
    chosen = chance.sample(sorted(places), min(number, len(places)))
    return [chance.choice(places[place]) for place in chosen]


def _mutants(root: Path, file: str) -> Iterable[tuple[object, Mutant]]:
    nodes = list(ast_nodes(get_ast((root / file).read_text(encoding="utf-8"))))
    for name in operator_names():
        operator = get_operator(name)
        if operator.arguments():
            continue
        positions = ((node, start) for node in nodes for start, _ in operator().mutation_positions(node))
        for occurrence, (node, start) in enumerate(positions):
            if not _is_annotation(node):
                yield start, Mutant(file, start[0], name, occurrence)


def _is_annotation(node: Any) -> bool:
    """Whether a node is part of an annotation, and not of a default value or an assigned one."""
    inner = node
    while (outer := inner.parent) is not None:
        if outer.type in ANNOTATION and inner is outer.children[ANNOTATION[outer.type]]:
            return True
        if outer.type == "funcdef" and inner is outer.annotation:
            return True
        inner = outer
    return False
