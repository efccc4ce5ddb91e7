"""Reports what the last measurement found: python -m tests.coverage.report [FILE ...]

Without files, the shares of all rooms, and pages of every file in build/coverage/html; with files, the lines and
branches of these that no test ran.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from coverage import Coverage
from coverage.exceptions import NoDataError

from tests.coverage.measure import FOLDER, SETTINGS, sources
from tests.suites.tree import tree_of

ROOT = Path(__file__).parents[2]


def main(files: list[str]) -> None:
    """Print the report."""
    measured = combined()
    if files:
        print("lines and branches that no test of this run reaches, in files that the change touches:")
        measured.report(include=[str(ROOT / file) for file in files], show_missing=True, skip_covered=True)
        return
    print_shares(measured)
    measured.html_report()
    print(f"every line: {FOLDER}/html/index.html")


def combined() -> Coverage:
    """What all processes ran, together; files that none imported count as not run."""
    measured = Coverage(config_file=str(ROOT / SETTINGS))
    measured.load()
    try:
        measured.combine(strict=True)
    except NoDataError:  # combined before
        measured.load()
    measured.get_data().touch_files([str(ROOT / file) for file in sources(tree_of(ROOT))])
    measured.save()
    return measured


def print_shares(measured: Coverage) -> None:
    """Print the share of statements and branches that were run, of each package and of handlers/ and marina/."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        measured.json_report(outfile=str(path))
        files = json.loads(path.read_text(encoding="utf-8"))["files"]
    run, total = defaultdict[str, int](int), defaultdict[str, int](int)
    for name, of_file in files.items():
        numbers, folder_of = of_file["summary"], Path(name).parent
        for package in {str(folder_of), folder_of.parts[0]}:
            run[package] += numbers["covered_lines"] + numbers["covered_branches"]
            total[package] += numbers["num_statements"] + numbers["num_branches"]
    print(f"{'statements and branches of':40}{'all':>8}{'run':>8}{'%':>8}")
    for package in sorted(total):
        if total[package]:
            print(f"{package:40}{total[package]:8}{run[package]:8}{100 * run[package] / total[package]:8.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
