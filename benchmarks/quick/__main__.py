"""Measures this tree and another revision in turns, and says what is slower."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.quick.figures import FIGURES, Figure, measure_tree, prepare
from benchmarks.quick.tree import Tree, export
from marina.console import print_error, print_table, progress_bar, say
from marina.errors import MarinaError
from marina.files import locked
from marina.project import find_project, project_beside
from marina.server.hosts.table import HOSTS
from marina.server.run.state import DIRECT
from marina.spec import read_spec

MODEL = "ava-intent"
ROUNDS, SECONDS, ROWS = 3, 4.0, 3000
WORSE = 0.05  # what all rounds have to be worse by
Round = Mapping[str, Mapping[Figure, float]]  # by the name of a tree


def main() -> None:
    """Run it; exits with status 1 if this tree is worse in all rounds."""
    parser = argparse.ArgumentParser(prog="make bench-quick", description=__doc__)
    parser.add_argument("--base", help="the other revision; by default the last tag, else origin/main")
    parser.add_argument("--host", choices=list(HOSTS), default=DIRECT, help="what carries the workers")
    options = parser.parse_args()
    try:
        rounds = run(options.base or last_release(), options.host, ROUNDS, SECONDS, ROWS)
    except MarinaError as error:
        print_error(str(error))
        sys.exit(1)
    base, this = rounds[0]
    print_table(["", base, this, "ratio", "rounds", ""], rows(rounds), numbers=5)
    worse = [figure.name for figure in FIGURES if is_worse(ratios(rounds, figure))]
    say(f"worse by more than {WORSE:.0%} in every round: {'; '.join(worse) or 'nothing'}")
    sys.exit(1 if worse else 0)


def run(base: str, host: str, count: int, seconds: float, bulk_rows: int) -> list[Round]:
    """Measure both trees in turns.

    Args:
        base: the other revision.
        host: what carries the workers.
        count: of rounds.
        seconds: of each load.
        bulk_rows: of each job in bulk.
    """
    project = find_project()
    folder = project.root / "build" / "bench" / "quick"
    spec = read_spec(project.models / f"{MODEL}.yaml")
    source = (project.root / str(spec.source.path)).resolve()
    if not source.is_dir():
        raise MarinaError(f"{MODEL} is not trained here", f"make build/training/{MODEL}")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"), progress_bar("bench-quick") as progress:
        export(project.root, base, folder / "base")
        trees = [
            Tree(base, folder / "base", project_beside(project, folder / "base-project")),
            Tree("this tree", project.root, project_beside(project, folder / "this-project")),
        ]
        for tree in trees:
            progress(f"{tree.name}: compiling", 0, count)
            prepare(tree, spec, source, bulk_rows)
        rounds: list[Round] = []
        for number in range(count):
            progress(f"round {number + 1}", number, count)
            # which one is first changes, as a machine may slow down or recover meanwhile
            turns = trees if number % 2 == 0 else trees[::-1]
            measured = {tree.name: measure_tree(tree, MODEL, host, seconds) for tree in turns}
            rounds.append({tree.name: measured[tree.name] for tree in trees})
    return rounds


def last_release() -> str:
    """The last tag, or origin/main before there is one."""
    command = ["git", "describe", "--tags", "--abbrev=0"]
    described = subprocess.run(command, capture_output=True, text=True, check=False)
    return described.stdout.strip() if described.returncode == 0 else "origin/main"


def ratios(rounds: Sequence[Round], figure: Figure) -> list[float]:
    """How much better this tree is in each round: above 1 is better, whatever the figure."""
    pairs = [tuple(by_tree[figure] for by_tree in measured.values()) for measured in rounds]
    return [this / base if figure.more_is_better else base / this for base, this in pairs]


def is_worse(figure_ratios: Sequence[float]) -> bool:
    """Whether all rounds agree that this tree is worse."""
    return max(figure_ratios) < 1 - WORSE


def rows(rounds: Sequence[Round]) -> list[list[str]]:
    """The table: medians of both trees, and the ratio with its range over rounds; above 1 is better."""
    table = []
    for figure in FIGURES:
        base, this = (median(measured[name][figure] for measured in rounds) for name in rounds[0])
        better = ratios(rounds, figure)
        table.append(
            [
                figure.name,
                f"{base:.4g}",
                f"{this:.4g}",
                f"{median(better):.2f}",
                f"{min(better):.2f} to {max(better):.2f}",
                "worse" if is_worse(better) else "",
            ]
        )
    return table


if __name__ == "__main__":
    main()
