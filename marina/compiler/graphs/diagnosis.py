"""Diagnoses by trial why a graph cannot be made or does not match the reference, and what helps."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from handlers.worker.archive.signature import Signature
from handlers.worker.engines import Inputs
from handlers.worker.errors import GoldenError
from handlers.worker.members.golden import GoldenRow, check_graph, check_rows
from handlers.worker.rows.calls import new_inputs
from handlers.worker.values import Shape
from marina.engines import engines
from marina.engines.base import Engine
from marina.engines.model import ExportedModel, example_inputs

# the summary line of OpenVINO's converter; the names in capitals are its own
CONVERTER_ERROR = re.compile(r"(?:Conversion is failed for|No conversion rule found for operations): (.+)")
SOURCE_LOCATIONS = re.compile(r"^(Exception from|Check '.*' failed at) \S+:\d+:?$")  # in OpenVINO's source code
MAX_LINES, MAX_CHARACTERS = 2, 300  # of a reason


class TorchGraph:
    """A PyTorch module that runs like a graph of one shape."""

    def __init__(self, module: Callable[..., Any], shape: Shape, signature: Signature) -> None:
        self.inputs: Inputs = new_inputs(shape, signature)
        self._module = module

    def run(self, rows: int) -> list[npt.NDArray[np.float32]]:
        import torch

        with torch.no_grad():
            outputs = self._module(*[torch.from_numpy(array.copy()) for array in self.inputs])
        return [output.numpy()[: rows * (len(output) // len(self.inputs[0]))] for output in outputs]


def reason_of(error: BaseException) -> str:
    """A one-line reason for an error: the operators in its message, or else the message of the first cause."""
    texts = [str(cause) for cause in _chain(error)]
    operator_names = {
        name.strip() for text in texts for names in CONVERTER_ERROR.findall(text) for name in names.split(",")
    }
    operators = sorted(name for name in operator_names if "::" in name)
    if operators:
        return f"it cannot convert {', '.join(operators)}"
    for text in reversed(texts):
        lines = [
            line.strip() for line in text.splitlines() if line.strip() and not SOURCE_LOCATIONS.match(line.strip())
        ]
        if lines:
            return " ".join(lines[:MAX_LINES])[:MAX_CHARACTERS].rstrip(" .")
    return type(error).__name__


def diagnose(
    model: ExportedModel,
    engine: Engine,
    shape: Shape,
    rows: Sequence[GoldenRow],
    signature: Signature,
    tolerance: float,
) -> str:
    """Run the model without an engine, and then traced for the most permissive engine, on the shape that failed.

    Args:
        model: the loaded model.
        engine: the engine that failed.
        shape: the shape of the graph.
        rows: rows with reference outputs.
        signature: the model's signature.
        tolerance: the tolerance of outputs.

    Returns:
        One sentence: the cause and the fix, as far as the trials can identify them.
    """
    import torch

    try:
        check_graph(TorchGraph(model.module_for(shape), shape, signature), shape, rows, signature, tolerance)
    except GoldenError:
        try:
            _check_unpadded(model, rows, signature, tolerance)
        except GoldenError as error:
            return f"The model itself, without any engine, is no closer to its reference in float32 ({error})"
        except Exception as error:
            return f"The model itself cannot compute a row without padding: {reason_of(error)}"
        return (
            "Padding alone changes the answers of the model itself, without any engine; shapes are static, so no "
            "engine can serve it"
        )
    except Exception as error:
        return f"The model itself cannot compute the shape {shape}: {reason_of(error)}; no engine can serve it"
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = torch.jit.trace(model.module_for(shape), example_inputs(model, shape), check_trace=False)
        check_graph(TorchGraph(traced, shape, signature), shape, rows, signature, tolerance)
    except Exception as error:
        return f"The model cannot be traced, as every engine needs: {reason_of(error)}"
    if not engine.portable:
        engine_name = next(candidate.name for candidate in engines().values() if candidate.portable)
        return f"The engine {engine_name} can take it: engine: {engine_name}"
    return "The model itself is faithful there; report this with the model"


def _check_unpadded(model: ExportedModel, rows: Sequence[GoldenRow], signature: Signature, tolerance: float) -> None:
    for row in rows:
        shape = Shape(1, len(row.row.ids))
        check_rows(TorchGraph(model.module, shape, signature), shape, [row], signature, tolerance)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its chain of causes."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
