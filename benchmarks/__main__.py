"""Measures this project's tables, and writes their reports.

python -m benchmarks overhead                    a table, for the demonstration models
python -m benchmarks ava my-intents              for a model of yours
python -m benchmarks peers                       other ways to serve (an hour)
python -m benchmarks report FILE                 the reports of a stored result.json again
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.kinds import TABLES
from marina.bench.report.pricing import price_of
from marina.bench.report.results import Result, read_result, write_result
from marina.bench.report.write import show, write_reports
from marina.bench.tables.kinds import draw, layout_of, measure_table, table_kind
from marina.console import print_error, print_json, progress_bar, say
from marina.errors import MarinaError
from marina.project import find_project


def main() -> None:
    """Run it; exits with status 1 if something is missing."""
    names = ", ".join(kind.removeprefix("table-") for kind in TABLES)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", help=f"{names}, or report")
    parser.add_argument("name", nargs="?", help="your model; for report, a result.json")
    parser.add_argument("--engine", help="in place of the spec's")
    parser.add_argument("--instance", help="for costs: the instance type of this machine, for example inf2.xlarge")
    parser.add_argument("--price", type=float, help="for costs: the price per hour in USD, in place of the known one")
    parser.add_argument("--out", type=Path, help="folder for reports; default: in build/bench")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    options = parser.parse_args()
    try:
        result = read_result(Path(options.name or "")) if options.table == "report" else measure(options)
        parent = Path(options.name).parent if options.table == "report" else find_project().root / "build" / "bench"
        finish(result, options.out or (parent if options.table == "report" else parent / result.kind), options.json)
    except MarinaError as error:
        print_error(str(error))
        sys.exit(1)


def measure(options: argparse.Namespace) -> Result:
    """Measure a table."""
    project = find_project()
    price = price_of(options.instance, options.price, project.root)
    with progress_bar(options.table) as progress:
        return measure_table(project, table_kind(options.table, TABLES), options.name, options.engine, price, progress)


def finish(result: Result, folder: Path, as_json: bool) -> None:
    """Write the reports, and print the table or JSON."""
    write_result(result, folder)  # before its report is made: an hour of measurement is kept, whatever goes wrong there
    layout = layout_of(result, TABLES)
    write_reports(result, layout, draw(result, TABLES), folder)
    if as_json:
        print_json(result.as_json())
        return
    show(result, layout, folder)
    for quote in result.more.get("quotes", ()):
        say(quote)


if __name__ == "__main__":
    main()
