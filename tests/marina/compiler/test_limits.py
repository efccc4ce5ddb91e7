import os
from pathlib import Path

import psutil

from marina.compiler.limits import free_memory, processors


def test_a_container_may_have_less_than_the_machine(tmp_path: Path) -> None:
    assert processors(tmp_path) == len(os.sched_getaffinity(0))
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert processors(tmp_path) == 1
    assert free_memory(tmp_path) == 600_000


def test_without_a_limit_it_has_the_machine(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert processors(tmp_path) == len(os.sched_getaffinity(0))
    assert free_memory(tmp_path) > psutil.virtual_memory().available // 2
