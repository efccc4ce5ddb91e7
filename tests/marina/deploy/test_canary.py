"""The route to a second Deployment, and the command that makes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from marina.archive.describe import Archive
from marina.deploy.kubernetes import deploy_kubernetes
from marina.deploy.source import joint_name
from tests.marina.deploy.test_kubernetes import documents


@pytest.mark.parametrize(
    ("name", "secret"), [(None, None), ("ava-intent-resume-search-resume-ner", None), (None, "models.token")]
)
def test_the_command_of_a_canary_makes_what_the_route_names(
    archives: list[Archive], tmp_path: Path, name: str | None, secret: str | None
) -> None:
    deploy_kubernetes(archives, tmp_path / "out", None, 2, name, secret=secret)
    canary = tmp_path / "out" / "optional" / "canary.yaml"
    (route,) = documents(canary)
    stable, second = (backend["name"] for backend in route["spec"]["rules"][0]["backendRefs"])
    command = canary.read_text().splitlines()[1].split()
    assert command[command.index("--name") + 1] == joint_name(archives, second) == second != stable
    # the canary accepts the clients' token
    assert (command[command.index("--secret") + 1] if secret else None) == secret
    assert ("copy overlays/cpu/token" in canary.read_text()) == (secret is None)
