"""The reader of lowered graphs: operators, and each documented limit in a graph that has what it is about."""

from __future__ import annotations

import pytest

from tests.proofs.hlo import limits, operators

GRAPH = """HloModule IrToHlo.9, entry_computation_layout={(f32[], s64[2,4]{1,0})->(f32[2,4]{1,0})}

%AddComputation.1 (x.2: f32[], y.3: f32[]) -> f32[] {
  %x.2 = f32[] parameter(0)
  %y.3 = f32[] parameter(1)
  ROOT %add.4 = f32[] add(f32[] %x.2, f32[] %y.3)
}

ENTRY %IrToHlo.9 (p0.1: f32[], p1.2: s64[2,4]) -> (f32[2,4]) {
  %constant.3 = s64[] constant(4294967295)
  %convert.4 = f32[2,4]{1,0} convert(s64[2,4]{1,0} %p1.2)
  %batch.5 = (f32[2,4]{1,0}, f32[4]{0}) batch-norm-training(f32[2,4]{1,0} %convert.4), epsilon=1e-05
  %dot.6 = f32[2,4]{1,0} dot(f32[2,4]{1,0} %convert.4, f32[4,4]{1,0} %w), lhs_contracting_dims={1}
%MORE
  ROOT %tuple.8 = (f32[2,4]{1,0}) tuple(f32[2,4]{1,0} %dot.6)
}
"""


def test_operators_of_all_computations_are_read() -> None:
    expected = {"parameter", "add", "constant", "convert", "batch-norm-training", "dot", "tuple"}
    assert operators(GRAPH.replace("%MORE", "")) == expected
    assert limits(GRAPH.replace("%MORE", "")) == []


@pytest.mark.parametrize(
    ("line", "limit"),
    [
        ("%p.7 = f64[] parameter(2)", "ESPP004: f64"),
        ("%real.7 = f32[4]{0} real(c64[4]{0} %x)", "EVRF004: c64"),
        ("%solve.7 = f32[4,4]{1,0} triangular-solve(f32[4,4]{1,0} %a, f32[4,4]{1,0} %b)", "EVRF001: triangular-solve"),
        ('%call.7 = f32[4]{0} custom-call(f32[4]{0} %x), custom_call_target="Sharding"', "EHCA005: Sharding"),
        ("%constant.7 = s64[2]{0} constant({1, 4294967296})", "ESFH002: a constant with more than 32 bits"),
        ("%dot.7 = s64[4]{0} dot(s64[2,4]{1,0} %a, s64[4]{0} %b)", "EVRF035: a product of s64"),
        (
            "%scatter.7 = s64[4]{0} scatter(s64[4]{0} %a, s64[1]{0} %i, s64[1]{0} %u)",
            "EVRF016, EVRF060: scatter of s64",
        ),
        ("%shift.7 = u8[4]{0} shift-right-arithmetic(u8[4]{0} %a, u8[4]{0} %b)", "EVRF022: shift of u8"),
        ("%sort.7 = s32[4]{0} sort(s32[4]{0} %a), dimensions={0}", "EVRF013: order of s32"),
        ("%power.7 = s64[4]{0} power(s64[4]{0} %a, s64[4]{0} %b)", "EVRF062: power of s64"),
        (
            "%rng.7 = u32[4]{0} rng-bit-generator(u64[2]{0} %s), algorithm=rng_philox",
            "EVRF006: a chosen algorithm",
        ),
        (
            "%w.7 = f32[4]{0} reduce-window(f32[4]{0} %a, f32[4]{0} %b, f32[] %z, f32[] %z), window={size=2}",
            "EVRF019: reduce-window of 4 operands",
        ),
        ("%x.7 = f32[<=4]{0} add(f32[<=4]{0} %a, f32[<=4]{0} %a)", "EMOD025: a dimension is dynamic"),
        (
            "%w.7 = f32[4]{0} reduce-window(f32[4]{0} %a, f32[] %z), window={size=2 lhs_dilate=2}",
            "EVRF017, EVRF018: reduce-window with dilation",
        ),
        (
            "%c.7 = f32[1,4]{1,0} convolution(f32[1,4]{1,0} %a, f32[1,4]{1,0} %k), window={stride=2 lhs_dilate=2}",
            "EVRF010, EVRF011: convolution with a dilated input",
        ),
    ],
)
def test_what_the_compiler_refuses_is_named(line: str, limit: str) -> None:
    assert limits(GRAPH.replace("%MORE", f"  {line}")) == [limit]


def test_calls_that_the_compiler_knows_are_no_limit() -> None:
    line = '  %call.7 = f32[4]{0} custom-call(f32[4]{0} %x), custom_call_target="AwsNeuronGelu"'
    assert limits(GRAPH.replace("%MORE", line)) == []
