import json
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marina.bench.load.payload import LoadCase, Payload
from marina.bench.load.profile import Load
from marina.bench.report.results import Configuration, read_result, write_result
from marina.errors import SpecError
from tests.marina.bench.results import entry, measured, result

CONFIGURATIONS = st.builds(
    Configuration,
    model=st.none() | st.text(),
    shapes=st.none() | st.lists(st.sampled_from(["1x16", "8x32"]), min_size=1).map(tuple),
    workers=st.none() | st.integers(1, 64),
    rate=st.none() | st.floats(0.1, 1e4),
    instances=st.none() | st.integers(1, 64),
    part=st.none() | st.text(),
)


@given(CONFIGURATIONS)
def test_a_configuration_comes_back_as_it_was_stored(configuration: Configuration) -> None:
    stored = replace(result([entry([measured(1)])]), baseline=configuration)
    stored = replace(stored, entries=[replace(stored.entries[0], configuration=configuration)])
    with TemporaryDirectory() as folder:
        again = read_result(write_result(stored, Path(folder)))
    assert again == stored
    assert again.as_json() == stored.as_json()


@given(CONFIGURATIONS, CONFIGURATIONS)
def test_what_the_other_knows_goes_first(configuration: Configuration, other: Configuration) -> None:
    both = configuration.with_fields_of(other)
    assert both.matches(other)
    assert both.known_fields() == {**configuration.known_fields(), **other.known_fields()}


def test_a_workload_says_its_loop() -> None:
    payload = Payload([b"{}"], 3, "texts.csv")
    closed = Configuration(model="m", rate=5.0).with_load_of(LoadCase(Load(4), payload))
    assert closed == Configuration(model="m", connections=4, instances=3, texts="texts.csv")
    opened = Configuration(model="m").with_load_of(LoadCase(Load(64, rate=9.0), payload))
    assert (opened.connections, opened.rate, opened.arrivals) == (None, 9.0, "poisson")


@pytest.mark.parametrize(("field", "value"), [("way", "Marina"), ("workers", "many"), ("shapes", 16)])
def test_a_field_that_is_wrong_is_named_in_one_line(tmp_path: Path, field: str, value: object) -> None:
    path = write_result(result([entry([measured(1)])]), tmp_path)
    document = json.loads(path.read_text())
    assert set(document["entries"][0]["configuration"]) == {one.name for one in fields(Configuration)}
    document["entries"][0]["configuration"][field] = value
    path.write_text(json.dumps(document))
    with pytest.raises(SpecError, match=rf"not a result of marina bench: entries\.0\.configuration\.{field}") as raised:
        read_result(path)
    assert "\n" not in str(raised.value)
