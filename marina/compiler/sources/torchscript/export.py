"""Exports a TorchScript module, whatever its task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from handlers.worker.archive.signature import (
    ATTENTION_MASK,
    INPUT_IDS,
    POSITION_IDS,
    TOKEN_TYPE_IDS,
    VALID_LENGTH,
    InputTensor,
)
from handlers.worker.tokens.preprocess import Preprocessor, rows_of
from handlers.worker.values import Instance, Row, Shape
from marina.compiler.examples import read_examples
from marina.compiler.hugging_face.embedder import POOLING
from marina.compiler.sources.torchscript.files import TorchScriptFiles, load_module, load_tokenizer
from marina.compiler.tasks.outputs import OutputRule, heads_of, names_of, outputs_of
from marina.compiler.tasks.wrappers import pool
from marina.engines.model import ExportedModel, example_inputs
from marina.errors import SourceError
from marina.spec import Spec

FROM_TOKENS = (INPUT_IDS, ATTENTION_MASK, TOKEN_TYPE_IDS, POSITION_IDS, VALID_LENGTH)


class ScriptedModel(nn.Module):
    """Runs a TorchScript module: makes its inputs from those of a graph, and pools and scales its outputs.

    Args:
        module: the module.
        input_dtypes: its inputs in order, with their dtypes.
        inputs: the arguments of `forward`.
        outputs: its outputs in order, each with its pooling, or None.
        normalize: whether outputs are scaled to unit length.
    """

    def __init__(
        self,
        module: Any,
        input_dtypes: Mapping[str, str],
        inputs: tuple[str, ...],
        outputs: Mapping[str, str | None],
        normalize: bool,
    ) -> None:
        super().__init__()
        self.module = module
        self.input_dtypes = {name: getattr(torch, dtype) for name, dtype in input_dtypes.items()}
        self.inputs = inputs
        self.outputs = dict(outputs)
        self.normalize = normalize

    def forward(self, *args: Tensor) -> tuple[Tensor, ...]:
        graph_inputs = dict(zip(self.inputs, args, strict=True))
        mask = graph_inputs.get(ATTENTION_MASK)
        module_inputs = dict(graph_inputs)
        if POSITION_IDS in self.input_dtypes and POSITION_IDS not in module_inputs:
            ids = graph_inputs[INPUT_IDS]
            module_inputs[POSITION_IDS] = (
                torch.arange(ids.shape[1], device=ids.device).unsqueeze(0).expand(ids.shape[0], -1)
            )
        if VALID_LENGTH not in module_inputs and mask is not None:
            module_inputs[VALID_LENGTH] = mask.sum(1)
        returned = self.module(*[module_inputs[name].to(dtype) for name, dtype in self.input_dtypes.items()])
        outputs = ordered_outputs(returned, self.outputs)
        if len(outputs) != len(self.outputs):
            raise SourceError(f"the module returns {len(outputs)} tensors, and outputs names {len(self.outputs)}")
        results = []
        for output, pooling in zip(outputs, self.outputs.values(), strict=True):
            values = output.float()
            if pooling and mask is not None:
                values = pool(values, mask.unsqueeze(-1).to(values.dtype), pooling)
            results.append(nn.functional.normalize(values, dim=-1) if self.normalize else values)
        return tuple(results)


def ordered_outputs(returned: Any, names: Mapping[str, Any]) -> list[Any]:
    """The outputs of a module in the order of their names, whether it returns one, several, or a dictionary."""
    if isinstance(returned, dict):
        return [returned[name] for name in names]
    return list(returned) if isinstance(returned, (tuple, list)) else [returned]


def export_module(files: TorchScriptFiles, rule: OutputRule) -> ExportedModel:
    """Load the module of a spec, and check that its inputs and outputs are as the spec says.

    Args:
        files: the spec and its files.
        rule: the rule for the outputs.

    Raises:
        SourceError: the files do not fit the spec.
    """
    spec = files.spec
    module = load_module(spec, files.module)
    input_dtypes = inputs_of(spec, module)
    tokenizer, tensors = None, {}
    if files.preprocess:
        tensors = _preprocessed_tensors(
            spec, Preprocessor(files.preprocess, tuple(input_dtypes)), input_dtypes, files.folder
        )
        inputs = tuple(input_dtypes)
    else:
        tokenizer = load_tokenizer(spec, Path(str(files.tokenizer)))
        inputs = _graph_inputs(spec, input_dtypes)
    outputs = {
        name: POOLING[output.pooling] if output.pooling else None for name, output in outputs_of(spec, rule).items()
    }
    if any(outputs.values()) and ATTENTION_MASK not in inputs:
        raise SourceError(f"{spec.name}: outputs: pooling needs {ATTENTION_MASK} among the inputs")
    scripted_model = ScriptedModel(module, input_dtypes, inputs, outputs, bool(spec.normalize)).eval()
    example = spec.shapes.listed()[-1]._replace(packed=False)
    model = ExportedModel(
        module=scripted_model,
        tokenizer=tokenizer,
        inputs=inputs,
        outputs=names_of(spec, rule),
        heads=heads_of(spec, rule),
        positions=None,
        unit_length=bool(spec.normalize),
        preprocess=files.preprocess,
        fields=spec.fields if files.preprocess else (),
        tensors=tensors,
        example=example,
    )
    return _with_checked_outputs(spec, model, rule)


def inputs_of(spec: Spec, module: Any) -> dict[str, str]:
    """The inputs of a module in order, with their dtypes: from the spec, else from the names of its arguments."""
    arguments = module.forward.schema.arguments[1:]
    names = [argument.name.partition(".")[0] for argument in arguments]
    required = sum(not argument.has_default_value() for argument in arguments)
    input_dtypes = dict(spec.inputs) if spec.inputs else dict.fromkeys(names[:required], "int64")
    if not required <= len(input_dtypes) <= len(arguments):
        raise SourceError(
            f"{spec.name}: inputs lists {len(input_dtypes)}, and the module of {spec.source} takes {len(arguments)}: "
            f"{', '.join(names)}"
        )
    return dict(input_dtypes)


def _graph_inputs(spec: Spec, input_dtypes: Mapping[str, str]) -> tuple[str, ...]:
    """The inputs of a graph that the module's inputs are made from."""
    unknown_inputs = [name for name in input_dtypes if name not in FROM_TOKENS]
    if unknown_inputs:
        raise SourceError(
            f"{spec.name}: the module of {spec.source} takes {unknown_inputs[0]!r}, which a tokenizer does not give; "
            f"name its inputs, in its order, as {', '.join(FROM_TOKENS)}, or make them with preprocess"
        )
    needs_mask = any(output.pooling for output in (spec.outputs or {}).values()) or VALID_LENGTH in input_dtypes
    needed_inputs = {INPUT_IDS, *input_dtypes, *((ATTENTION_MASK,) if needs_mask else ())}
    return tuple(name for name in (INPUT_IDS, ATTENTION_MASK, TOKEN_TYPE_IDS) if name in needed_inputs)


def _preprocessed_tensors(
    spec: Spec, preprocessor: Preprocessor, input_dtypes: Mapping[str, str], root: Path
) -> dict[str, InputTensor]:
    """The dtype and the padding of each input, as the preprocessing module gives them for the examples."""
    text_count = len(preprocessor.arguments)
    if text_count != len(spec.fields):
        raise SourceError(
            f"{spec.name}: the forward of {spec.preprocess} takes {text_count} texts, and fields names "
            f"{len(spec.fields)}"
        )
    instances = read_examples(spec, root).parity
    try:
        arrays = preprocessor.run(instances)
        rows = rows_of(arrays)
    except Exception as error:  # of the user's code
        raise SourceError(f"{spec.name}: {spec.preprocess} cannot read the examples: {_reason(error)}") from None
    if ATTENTION_MASK not in arrays and VALID_LENGTH not in arrays and _pads(preprocessor, instances, rows):
        raise SourceError(
            f"{spec.name}: {spec.preprocess} pads texts to the longest, so it must give {ATTENTION_MASK} or "
            f"{VALID_LENGTH} too, which tell where a text ends"
        )
    tensors = {}
    for name, array in arrays.items():
        is_float = (
            np.issubdtype(array.dtype, np.floating)
            and input_dtypes[name].startswith("float")
            and name != ATTENTION_MASK
        )
        tensors[name] = InputTensor("float32" if is_float else "int64", array.ndim == 1, _padding(name, array, rows))
    return tensors


def _pads(preprocessor: Preprocessor, instances: Sequence[Instance], rows: Sequence[Row]) -> bool:
    """Whether the row of a text is longer beside those of other texts than alone."""
    return any(
        len(single_row.ids) != len(row.ids)
        for instance, row in zip(instances, rows, strict=True)
        for single_row in rows_of(preprocessor.run([instance]))
    )


def _padding(name: str, array: npt.NDArray[Any], rows: Sequence[Row]) -> float:
    """The value that the module itself writes after the end of a row; 0 if no row ends before its tensor does."""
    if array.ndim == 1:
        return 0
    for index, row in enumerate(rows):
        if len(row.ids) < array.shape[1]:
            return float(array[index, -1]) if name != POSITION_IDS else 0
    return 0


def _reason(error: Exception) -> str:
    """The line of a module's error with the cause; TorchScript puts it behind a traceback of its code."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return (lines[-1] if "Traceback of TorchScript" in str(error) else lines[0])[:300]


def _with_checked_outputs(spec: Spec, model: ExportedModel, rule: OutputRule) -> ExportedModel:
    """Run the model once, refuse outputs that are not as the spec says, and find those with a value per token."""
    shape = model.example
    try:
        outputs = _run(model, shape)
    except SourceError as error:
        raise SourceError(f"{spec.name}: source {spec.source}: {error}") from None
    except Exception as error:  # of the user's code
        raise SourceError(
            f"{spec.name}: the module of {spec.source} fails with inputs of the shape {shape}: {_reason(error)}. If it "
            "was traced for one shape, name that one in shapes.exact; else correct the order and dtypes of inputs"
        ) from None
    for name, output in zip(model.outputs, outputs, strict=True):
        sizes = tuple(output.shape)
        labels = len(model.heads[name].labels) if name in model.heads else None
        if sizes[:1] != (shape.batch_size,) or (labels and sizes[-1:] != (labels,)):
            expected = f"({shape.batch_size}, ...{f', {labels}' if labels else ''})"
            raise SourceError(f"{spec.name}: output {name} has the shape {sizes}, and not {expected}")
        if rule.dims and len(sizes) != rule.dims:
            pooled = "; give it a pooling" if len(sizes) > rule.dims and not rule.per_token else ""
            raise SourceError(
                f"{spec.name}: output {name} has {len(sizes)} dimensions, and the task {spec.task} needs "
                f"{rule.dims}{pooled}"
            )
    return replace(model, token_outputs=_token_outputs(model, outputs) if rule.dims is None else ())


def _run(model: ExportedModel, shape: Shape) -> tuple[Tensor, ...]:
    with torch.no_grad():
        outputs: tuple[Tensor, ...] = model.module(*example_inputs(model, shape))
    return outputs


def _token_outputs(model: ExportedModel, outputs: Sequence[Tensor]) -> tuple[str, ...]:
    """The outputs whose second dimension follows the number of tokens; none if the module has one shape only."""
    shape = model.example
    try:
        shorter_outputs = _run(model, Shape(shape.batch_size, max(1, shape.sequence_length - 1)))
    except Exception:  # of the user's code, which was made for one shape
        return ()
    pairs = zip(model.outputs, outputs, shorter_outputs, strict=True)
    return tuple(
        name for name, output, shorter_output in pairs if output.ndim > 1 and output.shape[1] != shorter_output.shape[1]
    )
