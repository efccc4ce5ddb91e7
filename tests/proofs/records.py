"""What is on file of a proof, in docs/proofs."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from tests.proofs.cases import EVERY


def check_record(record: dict[str, Any]) -> None:
    """Check that a proof is of the packages that are installed, and of architectures that are known."""
    recorded = {name: _release(number) for name, number in record["versions"].items()}
    assert {name: _release(version(name)) for name in recorded} == recorded
    assert set(record["models"]) <= set(EVERY)


def _release(number: str) -> str:
    """A version without the kind of build: PyTorch's for CPUs, or with CUDA."""
    return number.partition("+")[0]
