"""In place of PyTorch, which is not in this image: its graphs do not need it.

TorchServe's worker imports torch for one question: whether an answer is a tensor. Marina's answers are bytes.
"""


class Tensor:
    """No answer is one."""
