"""The positions of tokens, in models that count them by their ids."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def number_positions(ids: npt.NDArray[np.int64], padding: int) -> npt.NDArray[np.int64]:
    """Position ids as RoBERTa and its relatives number tokens, of the same shape (rows, tokens) as `ids`.

    Tokens are numbered from `padding` + 1; a token whose id is `padding` is not counted and keeps `padding`.
    Computed here and not in graphs, as neuron-cc has no cumsum.
    Source: `create_position_ids_from_input_ids` of transformers' modeling_roberta.py.
    """
    tokens = ids != padding
    return np.asarray(np.cumsum(tokens, axis=1) * tokens + padding, dtype=np.int64)
