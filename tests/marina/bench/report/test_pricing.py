from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marina.bench.report.pricing import BUILT_IN_FILE, cost_per_1m, price_of
from marina.errors import SpecError


def test_costs_are_those_that_aws_published() -> None:
    # reserved prices and rows of the Inf1 and Inf2 benchmark pages
    assert cost_per_1m(0.110, 1181) == pytest.approx(0.026, abs=5e-4)
    assert cost_per_1m(0.567, 2009) == pytest.approx(0.078, abs=5e-4)
    assert cost_per_1m(0.328, 2674) == pytest.approx(0.034, abs=5e-4)


@given(st.floats(0.01, 100), st.floats(0.01, 1e6))
def test_a_million_at_that_rate_costs_that_much(price: float, throughput: float) -> None:
    cost = cost_per_1m(price, throughput)
    assert cost is not None
    assert cost == pytest.approx(price * (1e6 / throughput / 3600))


def test_nothing_answered_has_no_cost() -> None:
    assert cost_per_1m(1.0, 0.0) is None


def test_prices_come_from_the_option_then_the_project_then_marina(tmp_path: Path) -> None:
    assert price_of(None, None, tmp_path) is None
    known = price_of("inf2.xlarge", None, tmp_path)
    assert known is not None
    assert (known.instance, known.per_hour) == ("inf2.xlarge", 0.76)
    assert "undated" in known.basis
    (tmp_path / "instances.yaml").write_text(
        "basis: our contract\ninstances:\n"
        "  inf2.xlarge: {vcpu: 4, memory_gib: 16, on_demand: 0.5}\n"
        "  own.box: {vcpu: 2, memory_gib: 8, on_demand: 0.01}\n"
    )
    for name, price in (("inf2.xlarge", 0.5), ("own.box", 0.01), ("inf1.xlarge", 0.228)):
        found = price_of(name, None, tmp_path)
        assert found is not None
        assert found.per_hour == price
    given_price = price_of("inf2.xlarge", 0.4, tmp_path)
    assert given_price is not None
    assert (given_price.per_hour, given_price.basis) == (0.4, "as given")


def test_an_unknown_instance_and_a_broken_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"no price is known for p5\.48xlarge.*--price.*inf2\.xlarge"):
        price_of("p5.48xlarge", None, tmp_path)
    (tmp_path / "instances.yaml").write_text("basis: x\ninstances: {a: {vcpus: 4}}\n")
    with pytest.raises(SpecError, match=r"instances\.yaml: instances\.a\.vcpu"):
        price_of("a", None, tmp_path)


def test_marinas_own_file_says_where_its_prices_are_from() -> None:
    text = BUILT_IN_FILE.read_text()
    assert "Sources:" in text
    assert "basis:" in text
    assert "read:" in text
