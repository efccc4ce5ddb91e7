import torch
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers.sentence_transformer.modules import Pooling

from marina.compiler.tasks.wrappers import StaticPooling


@given(st.integers(0, 3), st.integers(1, 6), st.integers(0, 5), st.integers(0, 1000))
def test_pooling_is_the_librarys_and_looks_at_no_padding(prompt: int, tokens: int, padding: int, seed: int) -> None:
    torch.manual_seed(seed)
    vectors = torch.randn(1, prompt + tokens + padding, 3)
    mask = torch.tensor([[1] * (prompt + tokens) + [0] * padding])
    counted = torch.tensor([[0] * prompt + [1] * tokens + [0] * padding])
    for mode in Pooling.POOLING_MODES:
        features = {"token_embeddings": vectors, "attention_mask": mask, "prompt_length": prompt}
        expected = Pooling(3, mode, include_prompt=False)(features)["sentence_embedding"]
        found = StaticPooling([mode])({"token_embeddings": vectors, "attention_mask": counted})["sentence_embedding"]
        torch.testing.assert_close(found, expected)
    one, both = (
        StaticPooling(modes)({"token_embeddings": vectors, "attention_mask": mask})
        for modes in (["max"], ["max", "cls"])
    )
    torch.testing.assert_close(both["sentence_embedding"][:, :3], one["sentence_embedding"])
