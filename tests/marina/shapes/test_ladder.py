from hypothesis import given
from hypothesis import strategies as st

from marina.shapes.ladder import SHORTEST, ladder


@given(st.integers(1, 600), st.integers(1, 30), st.sampled_from([(1,), (1, 8), (1, 4, 16)]))
def test_no_text_wastes_more_than_the_bound(longest: int, graphs: int, sizes: tuple[int, ...]) -> None:
    made = ladder(longest, graphs, sizes)
    lengths = sorted({shape.sequence_length for shape in made.shapes})
    assert lengths[-1] == longest
    assert len(made.shapes) <= max(graphs, len(sizes))
    for tokens in range(min(lengths[0], SHORTEST) + 1 if len(lengths) > 1 else 1, longest + 1):
        held = min(length for length in lengths if length >= tokens)
        assert 1 - tokens / held <= made.waste + 1e-9


def test_more_graphs_waste_less() -> None:
    assert ladder(512, 24, (1, 8)).waste < ladder(512, 12, (1, 8)).waste < ladder(512, 4, (1, 8)).waste
