"""Models that change while clients use them: no request is lost."""

from __future__ import annotations

import time

import yaml

from marina.project import Project
from tests.chaos.conftest import NAME, Record, change, version_served
from tests.chaos.load import plain_clients
from tests.end_to_end.conftest import Server, run_marina


def test_an_upgrade_and_a_rollback_lose_no_request(packed: Project, served: Server, record: Record) -> None:
    first = version_served(served)
    for what, arguments in (
        ("upgrade", ("upgrade", NAME)),
        ("upgrade by register", ("register", NAME)),
        ("rollback", ("rollback", NAME)),
        ("rollback of the rollback", ("rollback", NAME)),
    ):
        before = version_served(served)
        if not what.startswith("rollback"):
            change(packed, max_instances=200 + len(what))
        with plain_clients(served, NAME, 16) as counts:
            time.sleep(1)
            result = served.marina(*arguments)
            time.sleep(1)
        assert result.returncode == 0, result.stderr
        record(what, counts)
        assert counts.answered == counts.sent > 0
        assert version_served(served) != before
    assert version_served(served) != first
    # the same archive again changes nothing
    now = version_served(served)
    assert served.marina("upgrade", NAME).returncode == 0
    assert version_served(served) == now


def test_a_new_version_that_cannot_start_changes_nothing(packed: Project, served: Server, record: Record) -> None:
    before = version_served(served)
    path = packed.models / f"{NAME}.yaml"
    fields = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**fields, "core_groups": "64"}))
    assert run_marina(packed, "archive", NAME).returncode == 0
    with plain_clients(served, NAME, 4) as counts:
        result = served.marina("upgrade", NAME)
    path.write_text(yaml.safe_dump(fields))
    assert run_marina(packed, "archive", NAME).returncode == 0
    record("upgrade that fails", counts)
    assert result.returncode == 1
    assert "a core group of 64 is configured" in result.stderr
    assert version_served(served) == before
    assert counts.answered == counts.sent > 0
    assert served.marina("upgrade", NAME).returncode == 0


def test_an_upgrade_that_stops_the_old_version_first(packed: Project, served: Server, record: Record) -> None:
    before = version_served(served)
    change(packed, max_instances=77)
    with plain_clients(served, NAME, 4, pause_s=0.05) as counts:
        result = served.marina("upgrade", NAME, "--replace")
        time.sleep(0.5)
    assert result.returncode == 0, result.stderr
    record("upgrade --replace", counts)
    assert version_served(served) != before
    assert set(counts.outcomes) <= {"200", "503"}
