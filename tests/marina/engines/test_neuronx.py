"""What is special about neuronx, without its packages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from marina.engines import engine_of, neuronx
from marina.engines.values import EngineFields

TRN2 = {"target": "trn2"}


@pytest.mark.parametrize(
    ("options", "groups", "instance", "runs"),
    [
        ({}, None, "inf2.xlarge", True),
        ({"target": "trn1"}, "1,1", "inf2.xlarge", True),
        (TRN2, None, "inf2.xlarge", False),
        (TRN2, None, "trn2.3xlarge", True),
        ({**TRN2, "logical_nc_config": 1}, None, "trn2.3xlarge", False),
        ({}, None, "", True),
        ({}, "1,2", "inf2.xlarge", True),
        ({}, "1,3", "inf2.xlarge", False),
    ],
)
def test_graphs_run_here_if_they_are_for_this_instance(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    options: dict[str, Any],
    groups: str | None,
    instance: str,
    runs: bool,
) -> None:
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "0,1")
    monkeypatch.setenv("MARINA_LEASES", str(tmp_path))
    monkeypatch.setattr(neuronx, "instance_type", lambda: instance)
    fields = EngineFields("bf16", False, False, "core-per-worker", groups, neuronx.NeuronxOptions(**options))
    assert engine_of("neuronx").runs_here(fields) is runs
