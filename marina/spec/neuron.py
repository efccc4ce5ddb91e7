"""How the Neuron engines compile. Every choice is passed to the compiler explicitly, and recorded.

Names and values are those of the command-line references of neuron-cc and neuronx-cc; what the
compilers do by themselves has changed between releases.
"""

from __future__ import annotations

import itertools
from typing import Literal

from pydantic import field_validator, model_validator

from marina.fields import Section

CASTS = ("all", "all-fp16", "matmult", "matmult-bf16", "matmult-fp16")
FAST_MATH = (
    *("all", "none", *(f"fp32-cast-{cast}" for cast in CASTS)),
    *(f"fp32-cast-{cast} {layout}" for cast, layout in itertools.product(CASTS, ("fast-relayout", "no-fast-relayout"))),
)


class NeuronOptions(Section):
    """Compiling for Inf1 with torch-neuron and neuron-cc."""

    fast_math: str | None = "fp32-cast-matmult no-fast-relayout"
    """What `--fast-math` says: which numbers are cast to 16 bits, and whether layouts may change
    faster and less exactly. From fast to exact: all, fp32-cast-matmult, fp32-cast-matmult
    no-fast-relayout, none."""

    fp32_cast: Literal["all", "all-fp16", "matmult", "matmult-bf16", "matmult-fp16"] | None = None
    """`--fp32-cast`, the older way to say it. It wins over fast_math, which must then be null."""

    pipeline_cores: Literal["auto"] | int = "auto"
    """mode: pipeline: the cores that one graph spreads over. auto is 4 * round(weights / 20 million),
    as AWS advises, but at most the core group."""

    fallback: bool = False
    """Let operators that neuron-cc does not know run on the CPU. Otherwise they are an error, and
    embeddings are computed on the NeuronCore too. The share that falls to the CPU is recorded."""

    dynamic_batch: bool = False
    """Let graphs take other batch sizes too (`dynamic_batch_size`). Marina's own calls keep to the
    compiled shape."""

    compiler_args: tuple[str, ...] = ()
    """More arguments for neuron-cc, for example [--enable-fast-context-switch]."""

    @field_validator("fast_math")
    @classmethod
    def _documented(cls, fast_math: str | None) -> str | None:
        if fast_math is not None and fast_math not in FAST_MATH:
            raise ValueError(f"use one of: {', '.join(FAST_MATH)}")
        return fast_math

    @field_validator("pipeline_cores")
    @classmethod
    def _positive(cls, cores: str | int) -> str | int:
        if isinstance(cores, int) and cores < 1:
            raise ValueError("use auto, or a number of at least 1")
        return cores

    @model_validator(mode="after")
    def _one_cast(self) -> NeuronOptions:
        if (self.fast_math is None) == (self.fp32_cast is None):
            raise ValueError("give fast_math or fp32_cast, and null for the other")
        return self

    @property
    def precision(self) -> str:
        """The number format of products."""
        return "fp16" if (self.fast_math or self.fp32_cast or "").partition(" ")[0].endswith("fp16") else "bf16"

    @property
    def casts_all(self) -> bool:
        """Whether more than products is cast."""
        return (self.fast_math or f"fp32-cast-{self.fp32_cast}").startswith(("all", "fp32-cast-all"))


class NeuronxOptions(Section):
    """Compiling for Inf2 and Trn1 with torch-neuronx and neuronx-cc."""

    target: Literal["inf2", "trn1", "trn1n", "trn2"] = "inf2"
    """The instances that the graphs are for."""

    auto_cast: Literal["none", "matmult", "all"] = "matmult"
    """Which operations compute in auto_cast_type. AWS's published figures are for matmult in bf16,
    while neuronx-cc's own choice is none since Neuron 2.27."""

    auto_cast_type: Literal["bf16", "fp16", "tf32", "fp8_e4m3"] = "bf16"
    """The number format to cast to."""

    optlevel: Literal[1, 2, 3] = 2
    """How hard the compiler works: 1 compiles fastest, 3 may compute fastest."""

    inline_weights: bool = True
    """Keep weights inside the compiled graph. false keeps them beside it, so that they can be replaced
    (`torch_neuronx.replace_weights`); the worker then moves them to its core."""

    dynamic_batch: bool = False
    """Let graphs take other batch sizes too (`torch_neuronx.dynamic_batch`). Marina's own calls keep to
    the compiled shape."""

    async_load: bool = False
    """Load graphs onto the core in the background, several at once."""

    compiler_args: tuple[str, ...] = ()
    """More arguments for neuronx-cc, for example [--enable-fast-context-switch]."""

    @model_validator(mode="after")
    def _go_together(self) -> NeuronxOptions:
        if self.dynamic_batch and not self.inline_weights:
            raise ValueError("dynamic_batch needs inline_weights: true")
        return self

    @property
    def precision(self) -> str:
        """The number format of products."""
        return "f32" if self.auto_cast == "none" else self.auto_cast_type

    @property
    def casts_all(self) -> bool:
        """Whether more than products is cast."""
        return self.auto_cast == "all"
