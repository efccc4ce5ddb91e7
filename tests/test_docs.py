import json
import re

import yaml

from docs.generate import made, metrics_config
from tests.conftest import ROOT


def test_files_made_from_code_are_up_to_date() -> None:
    for path, content in made(ROOT).items():
        assert path.read_text() == content, f"{path} is not up to date; run make docs"


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "marina.json").read_text())
    asked = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    page = (ROOT / "docs" / "metrics.md").read_text()
    used = set(re.findall(r"\b(?:marina|ts)_\w+", f"{asked} {page}"))
    served = {name for kind in yaml.safe_load(metrics_config()).values() for ms in kind.values() for name in names(ms)}
    assert used <= served
    assert {name for name in served if name.startswith("marina_")} <= used


def names(metrics: list[dict[str, str]]) -> list[str]:
    return [metric["name"] for metric in metrics]
