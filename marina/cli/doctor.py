"""`marina doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from marina.cli.options import ENGINE_NAMES, Archives, JsonOption
from marina.console import print_json, print_table, say
from marina.project import find_project

Engines = Annotated[
    list[str] | None,
    typer.Option("--engine", help=f"Also check this engine: {ENGINE_NAMES}. Repeat for several."),
]


def doctor(
    names: Archives = None,
    engine: Engines = None,
    hardware: Annotated[
        bool,
        typer.Option("--hardware", metavar="", help="On an Inferentia or Trainium instance: try everything there."),
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="TRIAL", help="With --hardware: this trial. Repeat for several.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="With --hardware: how long to measure each trial.")
    ] = 10.0,
    target: Annotated[
        str, typer.Option(help="With --hardware: what neuronx-cc compiles for: inf2, trn1, trn1n or trn2.")
    ] = "inf2",
    as_json: JsonOption = False,
) -> None:
    """Check whether this machine can serve the archives in model_store, and how to fix it if not.

    Checks Python, packages, Java, ports, disk, memory, the Neuron driver and its cores, and every
    archive against them. Exits with 1 if serving cannot work.

    With --hardware, compiles a small model in every way that Marina uses the Neuron SDK, serves it on
    real cores, measures it, and writes a report for bug reports.
    """
    if hardware:
        from marina.doctor.hardware import verify_hardware

        if not verify_hardware(only or [], seconds, target):
            raise typer.Exit(1)
        return
    from marina.doctor import examine
    from marina.engines import engine_of
    from marina.server.run.ports import configured_ports

    for name in engine or []:
        engine_of(name)
    project = find_project()
    findings = examine(project, names or [], engine or [], configured_ports(project.config))
    failed = [finding for finding in findings if finding.state == "fails"]
    if as_json:
        print_json({"can_serve": not failed, "findings": [finding._asdict() for finding in findings]})
    else:
        print_table(["check", "", "found"], [[finding.check, finding.state, finding.found] for finding in findings])
        for finding in findings:
            if finding.fix:
                say(f"{finding.check}: {finding.fix}")
        say(f"serving cannot work: {', '.join(finding.check for finding in failed)}" if failed else "serving can work")
    if failed:
        raise typer.Exit(1)
