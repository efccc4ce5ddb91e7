"""Which tests run in the same process, and which begin first, where they run side by side (tests/side_by_side)."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

# what these files set up is long in the making: a server, and compiled code of the simulator
TOGETHER = {
    "tests/end_to_end/test_stream.": "a server of every task",
    "tests/end_to_end/test_tasks.": "a server of every task",
    "tests/marina/plan/": "the simulator",
}
# each of these tests sets up all that it needs
ALONE = ("tests/marina/test_supported.",)
# they take longest, and would leave one process without work at the end
FIRST = ("tests/end_to_end/", "tests/chaos/", "tests/marina/plan/", "tests/marina/shapes/")


class Schedule(LoadFileScheduling):  # type: ignore[misc]
    """Files as they are, but for those that belong together."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(ALONE):
            return nodeid
        file = nodeid.partition("::")[0]
        return next((together for start, together in TOGETHER.items() if file.startswith(start)), file)


def by_length(nodeid: str) -> bool:
    """A key to sort tests by: those that take longest come first."""
    return not nodeid.startswith(FIRST)
