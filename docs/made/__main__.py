"""`make docs`: writes every file that is made from code."""

from __future__ import annotations

import json
from pathlib import Path

from docs.made.benchmarks import result_tables, write_pictures
from docs.made.cli import cli_page
from docs.made.errors import errors_page
from docs.made.proofs import claims_table, graphs_table, lowering_table, operators_table
from docs.made.spec import spec_page
from docs.made.states import states_table
from docs.made.supported import supported_table
from docs.made.tables import with_tables
from docs.made.telemetry import metrics_config, metrics_table
from marina.project import find_project
from marina.server.openapi import openapi

PROOFS = {
    "docs/proofs/xla.json": lowering_table,
    "docs/proofs/xla.json#graphs": graphs_table,
    "docs/proofs/inf1.json": operators_table,
}


def made(root: Path) -> dict[Path, str]:
    """Every file that is made from code, with what it should hold."""
    docs = root / "docs"

    def part(source: str) -> str | None:
        if source.endswith("metrics.py"):
            return metrics_table()
        if source.endswith("claims.py"):
            return claims_table()
        if source == "docs/supported.json":
            return supported_table(root / source)
        if source in PROOFS:
            return PROOFS[source](root / source.partition("#")[0])
        return result_tables(root / source) if source.endswith(".json") else states_table(source)

    pages = [
        docs / "reference" / "metrics.md",
        docs / "explanation" / "states.md",
        docs / "guides" / "neuron-models.md",
        docs / "guides" / "neuron.md",
        docs / "guides" / "bulk.md",
        docs / "guides" / "bundles.md",
        docs / "guides" / "hosts.md",
        docs / "models.md",
        docs / "benchmarks.md",
        docs / "recipes.md",
        docs / "deploy" / "ray.md",
    ]
    return {
        root / "deploy" / "metrics.yaml": metrics_config(),
        docs / "reference" / "errors.md": errors_page(),
        docs / "reference" / "spec.md": spec_page(),
        docs / "reference" / "cli.md": cli_page(),
        docs / "reference" / "openapi.json": json.dumps(openapi(), indent=1, ensure_ascii=False) + "\n",
        **{page: with_tables(page.read_text(encoding="utf-8"), part) for page in pages},
    }


def main() -> None:
    """Write the files of the current project, and the pictures of its stored results."""
    root = find_project().root
    for path, content in made(root).items():
        path.write_text(content, encoding="utf-8")
    write_pictures(root / "docs")


if __name__ == "__main__":
    main()
