"""Tries whether tests notice wrong code: python -m tests.mutants [--number 400] [--seed 1] [--again]

A broken-off run goes on where it was. Results are in build/mutants.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue

from rich.progress import track

from tests.mutants.draw import Mutant, draw
from tests.mutants.judge import Verdict, Workspace
from tests.mutants.reach import measure_reach, read_reach
from tests.suites.tree import tree_of

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "mutants"
ROOMS = (
    "handlers/worker/rows",
    "handlers/worker/tokens",
    "handlers/worker/admission",
    "handlers/worker/request",
    "marina/shapes",
    "marina/plan/simulator",
)
# those that reach these rooms in their own process
TESTS = ("tests/handlers", "tests/marina/shapes", "tests/marina/plan/simulator")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=400, help="of mutants")
    parser.add_argument("--seed", type=int, default=1, help="that draws them")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="side by side")
    parser.add_argument("--again", action="store_true", help="judge those that survived again, by new tests too")
    given = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    tree = tree_of(ROOT)
    files = [file for room in ROOMS for file in tree.below(room) if file.endswith(".py")]
    copies = [Workspace(ROOT, FOLDER / f"copy{number}") for number in range(given.processes)]
    version = tree.digest([*files, *(file for folder in TESTS for file in tree.below(folder))])
    reach, verdicts = read_reach(FOLDER / "reach.json"), read_verdicts()
    if reach is None or reach.version != version:
        packages = tuple(room.replace("/", ".") for room in ROOMS)
        reach = measure_reach(copies[0].folder, packages, TESTS, version, FOLDER / "reach.json")
    mutants = draw(ROOT, files, given.number, given.seed)
    waiting = [mutant for mutant in mutants if is_waiting(verdicts.get(key(mutant)), given.again)]
    workspaces = SimpleQueue[Workspace]()
    for copy in copies:
        workspaces.put(copy)

    def judge(mutant: Mutant) -> tuple[Mutant, Verdict]:
        workspace, tests = workspaces.get(), reach.tests_of(mutant.file, mutant.line)
        try:
            return mutant, workspace.judge(mutant, tests, reach.seconds_of(tests))
        finally:
            workspaces.put(workspace)

    with ThreadPoolExecutor(given.processes) as pool:
        try:
            judged = as_completed([pool.submit(judge, mutant) for mutant in waiting])
            for future in track(judged, "judging", total=len(waiting)):
                mutant, verdict = future.result()
                verdicts[key(mutant)] = verdict
                write_verdicts(verdicts)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise SystemExit(130) from None
    print_verdicts(mutants, verdicts)


def key(mutant: Mutant) -> str:
    """A mutant's name in the results: what it does to which line."""
    return f"{mutant.file}:{mutant.line} {mutant.operator}\n{mutant.difference(ROOT)}"


def noticed(verdict: Verdict) -> bool:
    return verdict.outcome in ("killed", "late")


def is_waiting(verdict: Verdict | None, again: bool) -> bool:
    return verdict is None or (again and not noticed(verdict))


def read_verdicts() -> dict[str, Verdict]:
    path = FOLDER / "verdicts.json"
    if not path.exists():
        return {}
    return {name: Verdict(**fields) for name, fields in json.loads(path.read_text(encoding="utf-8")).items()}


def write_verdicts(verdicts: dict[str, Verdict]) -> None:
    written = FOLDER / "verdicts.json.new"
    written.write_text(json.dumps({name: asdict(verdict) for name, verdict in verdicts.items()}, indent=1), "utf-8")
    written.replace(FOLDER / "verdicts.json")


def print_verdicts(mutants: list[Mutant], verdicts: dict[str, Verdict]) -> None:
    """Print the mutants that no test noticed, and the counts of each room."""
    counts, totals = Counter[str](), Counter[str]()
    for mutant in sorted(mutants, key=lambda mutant: (mutant.file, mutant.line)):
        verdict, room = verdicts[key(mutant)], str(Path(mutant.file).parent)
        for name in (room, "all"):
            totals[name] += 1
            counts[name] += noticed(verdict)
        if not noticed(verdict):
            print(f"\n{key(mutant)}\n{verdict.outcome}, {verdict.tests} tests reach it")
    print(f"\n{'room':32}{'mutants':>9}{'noticed':>9}{'%':>7}")
    for name in sorted(totals, key=lambda name: (name == "all", name)):
        print(f"{name:32}{totals[name]:9}{counts[name]:9}{100 * counts[name] / totals[name]:7.1f}")


if __name__ == "__main__":
    main()
