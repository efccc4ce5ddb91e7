"""`marina score`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import progress as bars

from marina.cli.options import JsonOption, key_value, parameter_of
from marina.console import err, out, print_json, print_table, say
from marina.errors import MarinaError
from marina.project import find_project

if TYPE_CHECKING:
    from marina.bench.report.pricing import Price
    from marina.score.score import BulkJob, Report, Scored
    from marina.score.spec import JobSpec

SAMPLE_ROWS = 500
SHOWN_ROWS = 3
INTERRUPTED = 130  # as shells call a program that Ctrl-C has ended


def score(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Model; BUNDLE:MODEL for one of a bundle.")] = None,
    input_url: Annotated[
        str | None, typer.Option("--input", metavar="URL", help="File, folder, pattern with *, or database to read.")
    ] = None,
    output_url: Annotated[
        str | None, typer.Option("--output", metavar="URL", help="File, folder or database to write.")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Table or collection to read, of a database.")] = None,
    query: Annotated[
        str | None, typer.Option(help="A SELECT in place of --table; for MongoDB a filter, as JSON.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="What tells rows of PostgreSQL apart. Default: primary key.")
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="TABLE", help="Table or collection to write, of a database.")
    ] = None,
    job_file: Annotated[
        Path | None, typer.Option("--job", metavar="FILE", help="YAML file with all of this; options replace its own.")
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="FIELD=NAME", help="The column of a field, as text=body. Repeat for more."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter, for example top_k=3. Repeat for more."),
    ] = None,
    keep: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Columns to carry along, as id,title. Default: all.")
    ] = None,
    prefix: Annotated[str | None, typer.Option(help="Put this before the names of the answers' columns.")] = None,
    file_format: Annotated[
        str | None, typer.Option("--format", help="Format of the files in a folder: parquet, csv, tsv or jsonl.")
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="ROWS", min=1, help="Only the first rows.")] = None,
    core_groups: Annotated[
        str | None, typer.Option(metavar="SIZES", help="Cores of each process, as 1,1,1,1. Default: the archive's.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(help="Let a server answer, http://HOST:PORT; the archive says which columns there are."),
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="MARINA_INFERENCE_TOKEN", help="Its inference token, with --url.")
    ] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Use a Ray cluster; local starts one on this machine.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Answer the first rows, estimate the rest, write nothing.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", metavar="", help="Remove answers that are there, and begin again.")
    ] = False,
    instance: Annotated[
        str | None, typer.Option(metavar="TYPE", help="For costs: the instance type of this machine.")
    ] = None,
    price: Annotated[float | None, typer.Option(metavar="USD", help="For costs: the price of an hour.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Answer the rows of files or a database, without a server, or with one elsewhere.

    Each core group runs a process. Rows are answered as the server would answer each alone. A row that cannot be
    answered has the reason in its column `error`, and stops nothing. If the command is interrupted or killed, the same
    command goes on where it was.
    """
    from marina.bench.report.pricing import price_of
    from marina.score.score import Backend, prepare
    from marina.score.score import score as run_job

    project = find_project()
    places = {
        "input": {"url": input_url, "table": table, "query": query, "key": key},
        "output": {"url": output_url, "table": to, "format": file_format},
    }
    fields = {
        "model": name,
        "columns": dict(key_value(setting, "--column", "text=body") for setting in columns or []) or None,
        "parameters": dict(parameter_of(setting) for setting in settings or []) or None,
        "keep": keep.split(",") if keep else None,
        "prefix": prefix,
        "limit": limit,
        "core_groups": core_groups,
    }
    spec = _job_spec(job_file, places, {key: value for key, value in fields.items() if value is not None})
    machine_price = price_of(instance, price, project.root)
    if url and ray:
        raise MarinaError("--url and --ray both say where rows are answered; give one")
    job = prepare(spec, project, Backend(url, token, ray))
    if dry_run:
        _show_sample(job, machine_price, as_json)
        return
    with _progress(job.source.rows(), not as_json) as report:
        scored = run_job(job, restart, report)
    document = _document(scored, machine_price)
    if as_json:
        print_json(document)
    else:
        say(_line(document))
    if not scored.complete:
        raise typer.Exit(INTERRUPTED)


def _job_spec(file: Path | None, places: dict[str, dict[str, Any]], fields: dict[str, Any]) -> JobSpec:
    """The job of a file with the options of the command in place of its own."""
    from pydantic import ValidationError

    from marina.score.spec import JobSpec
    from marina.spec import explain

    document = _job_fields(file) if file else {}
    for place, options in places.items():
        given_options = {key: value for key, value in options.items() if value is not None}
        of_file = document.get(place) or {}
        if given_options and isinstance(of_file, dict):  # what is neither empty nor fields is refused below
            document[place] = {**of_file, **given_options}
    for name in ("columns", "parameters"):
        if name in fields and isinstance(document.get(name), dict):
            fields = {**fields, name: {**document[name], **fields[name]}}
    missing = [name for name in ("model", "input", "output") if name not in {**document, **fields}]
    if missing:
        raise MarinaError(f"the {missing[0]} is missing", "write marina score NAME --input URL --output URL")
    try:
        return JobSpec.model_validate({**document, **fields})
    except ValidationError as error:
        raise MarinaError(f"{file or 'marina score'}: {explain(error, JobSpec)}") from None


def _job_fields(file: Path) -> dict[str, Any]:
    """The fields of a job's file; MarinaError if it is not YAML with fields."""
    import yaml

    from marina.fields import load_yaml

    fix = "--job takes a YAML file with the fields model, input and output"
    try:
        with file.open(encoding="utf-8") as opened:  # a file and no text, so that errors have its name
            fields = load_yaml(opened)
    except FileNotFoundError:
        raise MarinaError(f"{file} does not exist", fix) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise MarinaError(f"{file} is not YAML: {error}", fix) from None
    if not isinstance(fields, dict):
        raise MarinaError(f"{file} holds no fields", fix)
    return fields


@contextmanager
def _progress(rows: int, show: bool) -> Iterator[Report]:
    """A bar of the rows that are done, with their rate and the time left."""
    from marina.score.values import Counts

    columns = (
        bars.TextColumn("rows"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.fields[rate]}"),
        bars.TimeRemainingColumn(elapsed_when_finished=True),
    )
    with bars.Progress(*columns, console=err, transient=True, disable=not (show and err.is_terminal)) as progress:
        task = progress.add_task("", total=rows, rate="loading the model")

        def report(earlier: Counts, this_run: Counts) -> None:
            speed = progress.tasks[0].speed
            rate = f"{speed:,.0f} rows/s" if speed else ""
            progress.update(task, completed=earlier.rows + this_run.rows, rate=rate)

        yield report


def _document(scored: Scored, price: Price | None) -> dict[str, Any]:
    """The document for `--json`."""
    from marina.bench.report.pricing import cost_per_1m

    total, this_run = scored.total, scored.this_run
    rate = this_run.rows / scored.seconds if scored.seconds else None
    return {
        "complete": scored.complete,
        "output": scored.output,
        "rows": total.rows,
        "answered": total.rows - total.errors,
        "errors": total.errors,
        "truncated": total.truncated,
        "rows_here": this_run.rows,
        "seconds": round(scored.seconds, 3),
        "rows_per_s": rate and round(rate, 1),
        "padding": round(1 - total.tokens / total.computed, 4) if total.computed else None,
        "usd_per_1m": cost_per_1m(price.per_hour, rate) if price and rate else None,
        "instance": price.instance if price else None,
    }


def _line(document: dict[str, Any]) -> str:
    """The last line of a job."""
    parts = [f"{document['rows']:,} rows", f"{document['answered']:,} answered", f"{document['errors']:,} errors"]
    if document["truncated"]:
        parts.append(f"{document['truncated']:,} cut, as their texts are longer than the model reads")
    if document["rows_per_s"]:
        parts.append(f"{document['rows_per_s']:,.0f} rows/s")
    if document["padding"] is not None:
        parts.append(f"{100 * document['padding']:.1f} % padding")
    if document["usd_per_1m"]:
        parts.append(f"{document['usd_per_1m']:.3f} USD for a million on {document['instance']}")
    if not document["complete"]:
        return f"interrupted: {', '.join(parts)}; the same command goes on where this ended"
    outcome = "written" if document["rows_here"] or not document["rows"] else "was complete already"
    return f"{document['output']} {outcome}: {', '.join(parts)}"


def _show_sample(job: BulkJob, price: Price | None, as_json: bool) -> None:
    from marina.bench.report.pricing import cost_per_1m
    from marina.score.formats.values import json_text
    from marina.score.score import sample

    sampled = sample(job, SAMPLE_ROWS)
    rows, rate = job.source.rows(), sampled.rows_per_s
    first_answers = sampled.answers.slice(0, SHOWN_ROWS).to_pylist()
    cost = cost_per_1m(price.per_hour, rate) if price else None
    seconds = round(rows / rate, 1) if rate else 0
    document = {
        "rows": rows,
        "estimated_rows_per_s": round(rate, 1),
        "estimated_seconds": seconds,
        "estimated_usd_per_1m": cost,
        "errors_in_sample": sampled.counts.errors,
        "truncated_in_sample": sampled.counts.truncated,
        "sample_rows": sampled.counts.rows,
    }
    if as_json:
        print_json({**document, "answers": [json.loads(json_text(row)) for row in first_answers]})
        return
    print_table(sampled.answers.schema.names, [[_short(value) for value in row.values()] for row in first_answers])
    out.print()
    parts = [f"{rows:,} rows", f"about {rate:,.0f} rows/s with {len(job.core_groups)} processes"]
    parts.append(f"about {_duration(seconds)}")
    if cost is not None and price:
        parts.append(f"{cost:.3f} USD for a million on {price.instance}")
    parts.append(f"{sampled.counts.errors} errors in the first {sampled.counts.rows}")
    if sampled.counts.truncated:
        parts.append(f"{sampled.counts.truncated} of them cut, as they are longer than the model reads")
    say(", ".join(parts))


def _short(value: Any) -> str:
    text = f"[{len(value)} numbers]" if isinstance(value, list) and value and isinstance(value[0], float) else value
    text = f"{text:.4f}" if isinstance(text, float) else "" if text is None else str(text)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _duration(seconds: float) -> str:
    """A time as people say it."""
    for unit, length in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} seconds"
