"""`marina clean`."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from marina.cli.options import JsonOption
from marina.console import print_json, print_table, relative, say
from marina.errors import MarinaError
from marina.project import find_project

RECENT_S = 3600.0  # `marina archive` may be about to pack a newer artifact


def clean(
    yes: Annotated[bool, typer.Option("--yes", metavar="", help="Remove them.")] = False, as_json: JsonOption = False
) -> None:
    """Show the artifacts that nothing needs any more, and remove them with --yes.

    An artifact is needed if an archive of model_store holds it, if its spec would use it again, or if it is
    calibrated. Those of the last hour are left: they may be about to be packed. Removing others costs only the time to
    compile them again.
    """
    from marina.compiler.cache import discard
    from marina.compiler.unused import unused_artifacts
    from marina.shapes.auto import with_known_shapes
    from marina.spec import read_spec
    from marina.spec.served import read_yaml

    project = find_project()
    paths = sorted(path for path in project.models.glob("*.yaml") if "bundle" not in read_yaml(path))
    specs = {path.stem: read_spec(path) for path in paths}
    unused = [
        artifact
        for artifact in unused_artifacts(project, specs, lambda spec: with_known_shapes(spec, project))
        if time.time() - artifact.folder.stat().st_mtime > RECENT_S
    ]
    for artifact in unused if yes else []:
        discard(artifact.folder)
        if artifact.folder.exists():
            raise MarinaError(f"{relative(artifact.folder)} cannot be removed", "remove it as the user who made it")
    total = sum(artifact.size for artifact in unused)
    if as_json:
        artifacts = [{**artifact._asdict(), "folder": str(artifact.folder)} for artifact in unused]
        print_json({"removed": yes, "bytes": total, "artifacts": artifacts})
        return
    if not unused:
        say("every artifact is needed, or was compiled in the last hour")
        return
    rows = [[artifact.model, relative(artifact.folder), f"{artifact.size / 1e6:.1f}"] for artifact in unused]
    print_table(["model", "artifact", "MB"], rows, numbers=1)
    summary = f"{len(unused)} artifact{'s' * (len(unused) > 1)}, {total / 1e6:.1f} MB"
    say(f"removed {summary}" if yes else f"{summary}; to remove: marina clean --yes")
