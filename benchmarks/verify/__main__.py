"""Predicts random workloads, measures them, and says how far apart both are: `make verify-plan`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.verify.cases import draw_cases, read_cases
from benchmarks.verify.measure import Comparison, Figures, capacity, measure, predict, serve, texts_of
from benchmarks.verify.report import COLUMNS, coverage, medians, picture, rows
from benchmarks.verify.sweep import COLUMNS as SWEEP_COLUMNS
from benchmarks.verify.sweep import rows as table_of
from benchmarks.verify.sweep import summary, sweep
from handlers.worker.placement.discovery import cpu_cores
from marina.bench.report.machine import command, machine
from marina.bench.server.benchmark_server import benchmark_server
from marina.console import print_error, print_table, progress_bar, relative, say
from marina.errors import MarinaError
from marina.files import write_json
from marina.plan.calibration.calibrate import calibrate
from marina.plan.calibration.record import read_calibration
from marina.plan.options.places import Calibrated
from marina.project import find_project
from marina.server.hosts.table import HOSTS
from marina.server.run.state import DEFAULT_HOST
from marina.spec import read_spec

ROUNDS = 2  # through all workloads, so that the two measurements of a workload are minutes apart


def main() -> None:
    """Run it; exits with status 1 if something is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", help="models; every fifth workload has the first two")
    parser.add_argument("--cases", type=int, default=30, help="number of workloads")
    parser.add_argument("--host", choices=list(HOSTS), default=DEFAULT_HOST, help="what carries the workers")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds that draw the workloads")
    parser.add_argument("--workloads", type=Path, help="a YAML file with workloads, in place of random ones")
    parser.add_argument(
        "--sweep-rounds", type=int, default=3, help="through all configurations of the sweep; 0 for none"
    )
    options = parser.parse_args()
    try:
        run(options.models, options.cases, options.seeds, options.workloads, options.sweep_rounds, options.host)
    except MarinaError as error:
        print_error(str(error))
        sys.exit(1)


def run(names: list[str], count: int, seeds: list[int], workloads: Path | None, sweep_rounds: int, host: str) -> None:
    """Calibrate the models without a calibration, then predict and measure."""
    cores = len(cpu_cores())
    cases = read_cases(workloads, names, host) if workloads else draw_cases(names, cores, count, seeds, host)
    count = len(cases)
    project = find_project()
    folder = project.root / "build" / "plan" / "verify"
    folder.mkdir(parents=True, exist_ok=True)
    specs = {name: read_spec(project.models / f"{name}.yaml") for name in names}
    comparisons: list[Comparison] = []
    with progress_bar("verify-plan") as progress, benchmark_server(project, progress) as server:
        for spec in specs.values():
            if read_calibration(server.archive(spec), host) is None:
                calibrate(spec, project, server, None, progress, host)
        models = {name: Calibrated(spec, project, host) for name, spec in specs.items()}
        for model in models.values():
            model.compare_speed()
        case_inputs = [
            (
                [models[name] for name in case.models],
                [texts_of(models[name], kind) for name, kind in zip(case.models, case.lengths, strict=True)],
            )
            for case in cases
        ]
        case_rates = [
            case.share * capacity(case, case_models, texts)
            for case, (case_models, texts) in zip(cases, case_inputs, strict=True)
        ]
        predictions = [
            predict(case, case_models, texts, rate)
            for case, (case_models, texts), rate in zip(cases, case_inputs, case_rates, strict=True)
        ]
        measurements: list[list[list[Figures]]] = [[[] for _ in case.models] for case in cases]
        for step in range(ROUNDS * count):
            case, (case_models, texts), rate = cases[step % count], case_inputs[step % count], case_rates[step % count]
            progress(case.describe(), step, ROUNDS * count)
            for model_measurements, figures in zip(
                measurements[case.number], measure(case, serve(case, case_models, server), texts, rate), strict=True
            ):
                model_measurements.append(figures)
            comparisons = [
                Comparison(case, name, rate, prediction, model_measurements)
                for case, rate, case_predictions in zip(cases, case_rates, predictions, strict=True)
                for name, prediction, model_measurements in zip(
                    case.models, case_predictions, measurements[case.number], strict=True
                )
                if model_measurements
            ]
            write_json(
                folder / "verify.json",
                {
                    "machine": machine(),
                    "command": command(),
                    "host": host,
                    "seeds": seeds,
                    "medians": medians(comparisons),
                    "coverage": coverage(comparisons),
                    "cases": [asdict(comparison) for comparison in comparisons],
                },
            )
        rate, sweep_entries = (
            sweep(models[names[0]], server, cores, sweep_rounds, progress) if sweep_rounds else (0.0, [])
        )
        write_json(
            folder / "sweep.json",
            {"machine": machine(), "rate": rate, "swept": [asdict(entry) for entry in sweep_entries]},
        )
    print_table(COLUMNS, rows(comparisons), numbers=10)
    for label, values in medians(comparisons).items():
        say(f"median {label}: " + ", ".join(f"{name} {value:.1%}" for name, value in values.items()))
    covered = ", ".join(f"{name} {share:.0%}" for name, share in coverage(comparisons).items())
    say(f"measurements in the predicted range, of which 90% should be: {covered}")
    if sweep_entries:
        print_table(SWEEP_COLUMNS, table_of(sweep_entries), numbers=5)
        say(summary(rate, sweep_entries))
    (folder / "verify.svg").write_bytes(picture(comparisons))
    say(f"picture: {relative(folder / 'verify.svg')}")


if __name__ == "__main__":
    main()
