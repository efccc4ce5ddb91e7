"""The report of the hardware check, which can be attached to a bug report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from marina.doctor.hardware.trials import HardwareTrial


class CheckedClaim(NamedTuple):
    """What documentation says, and what the checks of this run say of it."""

    text: str
    state: Literal["confirmed", "refuted", "not tested"]


def checked_claims(claims: Mapping[str, str], outcomes: Mapping[str, bool]) -> list[CheckedClaim]:
    """Hold claims against outcomes, both by the name of the check; checks without an outcome were not run."""
    return [
        CheckedClaim(text, "not tested" if check not in outcomes else "confirmed" if outcomes[check] else "refuted")
        for check, text in claims.items()
    ]


def write_report(
    folder: Path, document: dict[str, Any], claims: Sequence[CheckedClaim], finished_trials: list[HardwareTrial]
) -> Path:
    """Write the results as JSON and as a Markdown page; returns the path of the page."""
    (folder / "report.json").write_text(json.dumps(document, indent=1) + "\n")
    lines = ["# Hardware check", "", f"Engine {document['engine']}, {document['cores']} NeuronCores.", ""]
    lines += ["| check | | found |", "|---|---|---|"]
    lines += [f"| {entry['check']} | {entry['state']} | {entry['found']} |" for entry in document["doctor"]]
    lines += ["", "| trial | passed | compiled in s | texts/s | p50 ms | p99 ms |", "|---|---|---|---|---|---|"]
    for trial in finished_trials:
        latencies = [str(trial.milliseconds.get(name, "")) for name in ("p50", "p99")]
        row = [trial.name, "yes" if trial.passed else "NO", str(trial.seconds), str(trial.texts_per_second), *latencies]
        lines.append(f"| {' | '.join(row)} |")
    for trial in finished_trials:
        if trial.switch_ms:
            costs = ", ".join(f"{name} {value:.3f}" for name, value in trial.switch_ms.items())
            lines += [
                "",
                f"Milliseconds that a call takes longer after another model's call on the same core: {costs}.",
            ]
        if trial.failure:
            lines += ["", f"## {trial.name}", "", "```", trial.failure, "```"]
    lines += ["", "| what AWS documents | |", "|---|---|", *(f"| {claim.text} | {claim.state} |" for claim in claims)]
    page = folder / "report.md"
    page.write_text("\n".join(lines) + "\n")
    return page
