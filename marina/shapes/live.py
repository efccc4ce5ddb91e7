"""The lengths of the rows that a running server has computed, from its metrics."""

from __future__ import annotations

import requests
from prometheus_client.parser import text_string_to_metric_families

from handlers.worker.telemetry.metrics import ROW_TOKENS
from marina.errors import ServerError
from marina.project import Project
from marina.server.models import require_running
from marina.server.run.tokens import loopback_session
from marina.shapes.lengths import expand_histogram

TIMEOUT_S = 10
LONGER = 1 << 30  # tokens of rows above the last bucket; the longest shape bounds them


def live_lengths(name: str, project: Project, url: str | None) -> list[int]:
    """The tokens of the rows of a model since its server started, each rounded up to the bound of its bucket.

    Args:
        name: of the model; or of a member of a bundle.
        project: whose running server to ask.
        url: of the metrics page of another server; None for the project's.

    Raises:
        ServerError: the metrics cannot be read, or have fewer than two rows of the model.
    """
    address = url or f"http://127.0.0.1:{require_running(project).ports.metrics}/metrics"
    try:
        page = loopback_session().get(address, timeout=TIMEOUT_S)
        page.raise_for_status()
        counts = _histogram(page.text, name)
    except (requests.RequestException, ValueError) as error:
        raise ServerError(f"the metrics at {address} cannot be read: {error}") from None
    if sum(counts.values()) < 2:
        raise ServerError(f"the metrics at {address} have no rows of {name} yet", "choose shapes after some traffic")
    return expand_histogram(counts)


def _histogram(page: str, name: str) -> dict[int, int]:
    """How many rows there are in each bucket, by its bound."""
    cumulative: dict[float, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            # the parser appends _total to every counter
            if sample.name.removesuffix("_total") == f"{ROW_TOKENS}_bucket" and sample.labels.get("member") == name:
                bound = float(sample.labels["le"])
                cumulative[bound] = cumulative.get(bound, 0.0) + sample.value
    counts, lower_count = {}, 0.0
    for bound, count in sorted(cumulative.items()):
        counts[LONGER if bound == float("inf") else int(bound)] = round(count - lower_count)
        lower_count = count
    return counts
