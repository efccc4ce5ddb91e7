"""ModelInferRequests whose parts need not fit each other."""

from __future__ import annotations

from hypothesis import strategies as st

from marina.client.messages import make_messages
from marina.server.hosts.direct.open_inference import INFER

MESSAGES = make_messages("inference", INFER)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TENSORS = ("text", "text_pair", "", "other")


@st.composite
def hostile_messages(draw: st.DrawFn, model: str) -> bytes:
    """Messages for a model, as bytes."""
    made = MESSAGES["ModelInferRequest"](model_name=model, id=draw(TEXTS))
    for _ in range(draw(st.integers(0, 3))):
        tensor = made.inputs.add(
            name=draw(st.sampled_from(TENSORS)),
            datatype=draw(st.sampled_from(["BYTES", "FP32", ""])),
            shape=draw(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3), max_size=3)),
        )
        tensor.contents.bytes_contents.extend(draw(st.lists(st.binary(max_size=8), max_size=3)))
        tensor.contents.fp32_contents.extend(draw(st.lists(st.floats(width=32), max_size=2)))
    if draw(st.booleans()):
        made.raw_input_contents.extend(draw(st.lists(st.binary(max_size=12), max_size=3)))
    for name in draw(st.lists(TEXTS, max_size=2)):
        made.parameters[name].double_param = draw(st.floats())
        made.parameters[f"{name}2"].uint64_param = draw(st.integers(0, 2**64 - 1))
        made.outputs.add(name=name).parameters[name].string_param = draw(TEXTS)
    content: bytes = made.SerializeToString()
    return content
