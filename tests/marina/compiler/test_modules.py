import torch
from hypothesis import given
from hypothesis import strategies as st

from marina.compiler.modules import pool


@given(st.integers(1, 6), st.integers(0, 5), st.integers(0, 1000))
def test_pooling_looks_at_tokens_and_not_at_padding(tokens: int, padding: int, seed: int) -> None:
    torch.manual_seed(seed)
    vectors = torch.randn(1, tokens + padding, 3)
    mask = torch.tensor([[1] * tokens + [0] * padding])
    real = vectors[0, :tokens]
    expected = {"mean": real.mean(0), "max": real.max(0).values, "cls": real[0], "last": real[-1]}
    for pooling, vector in expected.items():
        torch.testing.assert_close(pool(vectors, mask, pooling)[0], vector)
