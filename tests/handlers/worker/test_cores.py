import os

import pytest

from handlers.worker.cores import parse_core_groups, worker_cores


def test_groups_are_read_as_neuroncore_group_sizes() -> None:
    assert parse_core_groups("1,1,1,1") == (1, 1, 1, 1)
    assert parse_core_groups(" 2, 2 ") == (2, 2)


@pytest.mark.parametrize("text", ["", "0", "1,", "a", "-1", "1.5"])
def test_what_is_no_list_of_sizes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a list of core group sizes"):
        parse_core_groups(text)


def test_a_worker_computes_on_its_group_or_on_every_core_it_may_use() -> None:
    assert worker_cores("2,2") == 2
    assert worker_cores(None) == len(os.sched_getaffinity(0))
