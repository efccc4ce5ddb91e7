"""Runs suites of slow tests: those whose inputs have changed since they last passed, named ones, or all.

    python -m tests.suites list              each suite, and whether it has to run
    python -m tests.suites inputs NAME       the files that a suite depends on
    python -m tests.suites run [NAME ...]    named suites, or those that have to run
    python -m tests.suites all               checks, fast tests and every suite
    python -m tests.suites ci                checks, fast tests and the suites that have to run

What passes is written to tests/proven.json, except by `ci`. With --coverage, `run` and `all` also measure which lines
of handlers/ and marina/ the tests run; `ci` measures those files that the change touches.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path

from tests.coverage.measure import Measuring, changed_sources, report
from tests.suites.digest import Digests
from tests.suites.outcome import Outcome, proof_of, unproven
from tests.suites.proven import Proof, read_proofs, write_proofs
from tests.suites.run import Stage, batches, can_run, make, run_fast, run_suites
from tests.suites.table import STACKS, SUITES
from tests.suites.tree import tree_of

ROOT = Path(__file__).parents[2]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("list", "inputs", "run", "all", "ci"))
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *SUITES], help=", ".join(SUITES))
    parser.add_argument("--coverage", action="store_true", help="measure which lines the tests run")
    given = parser.parse_args()
    tree = tree_of(ROOT)
    proofs, digests = read_proofs(ROOT), Digests(tree)
    if given.what == "inputs":
        print("\n".join(file for name in given.names for file in digests.inputs(name)))
        return
    why = {name: stale(proofs.get(name), digests.of(name)) for name in SUITES}
    if given.what == "list":
        for name, reason in why.items():
            print(f"{name:16} {reason or left_out(proofs[name])}")
        return
    names = given.names or [name for name in SUITES if given.what == "all" or why[name]]
    others = {name: left_out(proofs[name]) for name in SUITES if name not in names and not why[name]}
    for name in names:
        print(f"{name:16} runs: {why[name] or 'it is named'}", flush=True)
    for name, reason in others.items():
        print(f"{name:16} left out: {reason}", flush=True)
    changed = changed_sources(tree) if given.what == "ci" else []
    with Measuring(tree, changed) if given.coverage or changed else nullcontext() as measuring:
        stages = prepare(measuring) if given.what in ("all", "ci") else []
        if not any(stage.failure for stage in stages):
            stages += run(names, proofs, given.what != "ci", measuring)
    if measuring:
        report(ROOT, STACKS["cpu"].python, changed)
    print_table(stages, others)
    sys.exit(any(stage.failure for stage in stages))


def stale(proof: Proof | None, digest: str) -> str | None:
    """Why a suite has to run; None if it passed with just these inputs."""
    if proof is None:
        return "has not passed yet"
    return None if proof.digest == digest else f"what it depends on has changed since it passed on {proof.date}"


def left_out(proof: Proof) -> str:
    """Why a suite need not run."""
    return f"passed on {proof.date} with the same inputs: {proof.passed} tests, {proof.seconds / 60:.1f} min"


def prepare(measuring: Measuring | None) -> list[Stage]:
    """The environment, the checks and the fast tests; ends at the first that fails."""
    stages = [make(ROOT, "environment", STACKS["cpu"].target)]
    if not stages[-1].failure:
        stages.append(make(ROOT, "check", "check"))
    if not stages[-1].failure:
        stages.append(run_fast(ROOT, measuring))
    return stages


def run(names: list[str], proofs: dict[str, Proof], record: bool, measuring: Measuring | None = None) -> list[Stage]:
    """Run suites, those that took longest first; keep the proofs of those that pass."""
    stages = []
    missing = {name: reason for name in names if (reason := can_run(ROOT, name))}
    stages += [Stage(f"{name}: {reason}", 0) for name, reason in missing.items()]
    able = [name for name in names if name not in missing]
    for batch in batches(sorted(able, key=lambda name: -proofs[name].seconds if name in proofs else 0)):
        needs = {STACKS[SUITES[batch[0]].stack].target, *(need for name in batch for need in SUITES[name].needs)}
        stages.append(make(ROOT, f"what {', '.join(batch)} need", *sorted(needs)))
        if stages[-1].failure:
            continue
        digests = Digests(tree_of(ROOT))
        before = {name: digests.of(name) for name in batch}
        stage = run_suites(ROOT, batch, measuring)
        stages.append(stage)
        after = Digests(tree_of(ROOT))
        if record:
            passed = {
                name: proof_of(outcome, before[name])
                for name, outcome in stage.outcomes.items()
                if unproven(name, outcome) is None and after.of(name) == before[name]
            }
            write_proofs(ROOT, {**read_proofs(ROOT), **passed})  # another run may have written meanwhile
    return stages


def print_table(stages: list[Stage], others: dict[str, str]) -> None:
    """Print what took how long, what was left out, and the totals as the last line.

    The minutes of a suite are those of its tests one after the other; those of a stage, by the clock.
    """
    print(f"\n{'stage':44}{'minutes':>8}{'passed':>8}{'failed':>8}{'skipped':>8}")
    total = Outcome()
    for stage in stages:
        print(f"{shortened(stage.name):44}{stage.seconds / 60:8.1f}  {stage.failure or ''}".rstrip())
        for name, outcome in stage.outcomes.items():
            counts = f"{outcome.passed:8}{outcome.failed:8}{len(outcome.skipped):8}"
            why = unproven(name, outcome) if name in SUITES else None
            print(f"  {name:42}{outcome.seconds / 60:8.1f}{counts}{f'  not proven: {why}' if why else ''}")
            total.passed += outcome.passed
            total.failed += outcome.failed
            total.skipped += outcome.skipped
    for name, reason in others.items():
        print(f"{name:44} left out: {reason}")
    print(f"{'all':44}{sum(stage.seconds for stage in stages) / 60:8.1f}")
    print(f"{total.passed} passed, {total.failed} failed, {len(total.skipped)} skipped")


def shortened(text: str) -> str:
    return text if len(text) <= 43 else f"{text[:40]}..."


if __name__ == "__main__":
    main()
