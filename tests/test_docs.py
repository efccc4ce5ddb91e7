import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from pydantic import TypeAdapter

from docs.made.__main__ import made
from docs.made.cli import cli_page
from docs.made.spec import EXAMPLES, fields
from docs.made.telemetry import metrics_config
from marina.spec import spec_model
from tests.conftest import ROOT


def test_files_made_from_code_are_up_to_date() -> None:
    for path, content in made(ROOT).items():
        assert path.read_text() == content, f"{path} is not up to date; run make docs"


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "marina.json").read_text())
    asked = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    used = set(re.findall(r"\b(?:marina|ts)_\w+", f"{asked} {page}"))
    served = {name for kind in yaml.safe_load(metrics_config()).values() for ms in kind.values() for name in names(ms)}
    assert used <= served
    assert {name for name in served if name.startswith("marina_")} <= used


# their Python needs a server, and is run by tests/end_to_end/test_tasks.py
WITH_A_SERVER = {"docs/guides/clients.md"}


def test_the_python_of_every_page_runs() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    with_python = {page.relative_to(ROOT).as_posix() for page in pages if "```python\n" in page.read_text()}
    assert with_python > WITH_A_SERVER
    for page in with_python - WITH_A_SERVER:
        names: dict[str, Any] = {"__name__": "page"}
        for block in re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL):
            exec(block, names)


def test_every_field_of_a_spec_has_an_example_that_is_valid() -> None:
    known = dict(fields(spec_model()))
    assert set(EXAMPLES) == set(known)
    for name, field in known.items():
        assert field.description, name
        field_type: Any = Annotated[field.annotation, field]
        TypeAdapter(field_type).validate_python(EXAMPLES[name])


def test_every_command_has_an_example() -> None:
    page = cli_page()
    commands = re.findall(r"^## (marina .+)$", page, re.MULTILINE)
    assert len(commands) > 20
    for command in commands:
        section = page.partition(f"## {command}\n")[2].partition("\n## ")[0]
        assert f"Example: `{command}" in section, command


@pytest.mark.long
def test_the_site_is_built_without_warnings_and_without_network(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    built = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **proxies}, capture_output=True, text=True, timeout=120, check=False
    )
    assert built.returncode == 0, built.stderr
    pages = {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*.html")}
    assert {"index.html", "changelog.html", "reference/spec.html", "reference/python.html", "models.html"} <= pages
    for page in (tmp_path / "site").rglob("*.html"):
        fetched = re.findall(r'(?:src|href)="(https?://[^"]+\.(?:css|js|woff2?))"', page.read_text())
        assert not fetched, page.name


def names(metrics: list[dict[str, str]]) -> list[str]:
    return [metric["name"] for metric in metrics]
