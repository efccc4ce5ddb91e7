from __future__ import annotations

import json
import re
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marina.server.run.json_logs import as_json

LOG_LINES = st.from_regex(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[,.]\d{3} \[[A-Z]{1,5}\] (W-\d-[a-z_]{1,9}-stdout|main) x - .{0,40}", fullmatch=True
)


@given(LOG_LINES | st.text(st.characters(blacklist_characters="\n")))
def test_every_line_is_an_object_in_a_line(line: str) -> None:
    text = as_json(line)
    assert "\n" not in text
    fields = json.loads(text)
    assert {"time", "level", "message"} <= set(fields)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fields["time"])


@pytest.mark.parametrize("separator", [",", "."])
def test_the_fields_of_a_line(separator: str) -> None:
    local = datetime(2026, 11, 27, 20, 15, 1, 123_000)
    trace = "0af7651916cd43dd8448eb211c80319c"
    message = f"request 17 of trace {trace} was answered with 500"
    line = f"2026-11-27T20:15:01{separator}123 [INFO ] W-9001-Search.v_2_1.0-stdout direct - {message}"
    assert json.loads(as_json(line)) == {
        "time": f"{local.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%S}.123Z",
        "level": "INFO",
        "thread": "W-9001-Search.v_2_1.0-stdout",
        "logger": "direct",
        "message": message,
        "worker": "9001",
        "model": "Search.v_2",
        "version": "1.0",
        "trace_id": trace,
    }


def test_a_line_of_another_form_is_a_message() -> None:
    fields = json.loads(as_json('Traceback: "quoted"\\', "ERROR"))
    assert (fields["level"], fields["message"]) == ("ERROR", 'Traceback: "quoted"\\')
