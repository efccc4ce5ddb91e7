"""What commands print."""

from __future__ import annotations

from typing import Any

import pytest

from marina.console import print_answer


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        ([0.12345, -1.0, 2.0], ["[0.1235, -1.0000, 2.0000, ...] (3 numbers)"]),
        ([3, 255, 7], ["[3, 255, 7, ...] (3 numbers)"]),
        (0.98765, ["0.9877"]),
        ([{"label": "yes", "score": 0.9}], ["label  score", "yes    0.9000"]),
        ("{2:0.5}/9", ["{2:0.5}/9"]),
        ([[0.5, 1.0], [0.5, 0.5]], ["[0.5000, 1.0000, ...] (2 numbers)", "... 2 vectors"]),
        ([], ["nothing"]),
        (
            [{"index": 7, "value": 0.5}] * 21,
            ["index  value", *["7      0.5000"] * 20, "... 21 rows; --json prints all"],
        ),
    ],
)
def test_answers(answer: Any, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    print_answer(answer)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == lines
