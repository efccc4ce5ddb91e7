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

from handlers.worker.artifact import ATTENTION_MASK, POSITION_IDS, VALID_LENGTH, InputTensor
from handlers.worker.rows.preprocess import Preprocessor, rows_of
from handlers.worker.values import Instance, Row, Shape
from marina.compiler.examples import read_examples
from marina.compiler.hugging_face.embedder import POOLING
from marina.compiler.sources.torchscript.files import TorchScriptFiles, load_module, load_tokenizer
from marina.compiler.tasks.outputs import OutputRule, heads_of, names_of, outputs_of
from marina.compiler.tasks.wrappers import pool
from marina.engines.model import ExportedModel, example_inputs
from marina.errors import SourceError
from marina.spec import Spec

IDS, TYPE_IDS = "input_ids", "token_type_ids"
FROM_TOKENS = (IDS, ATTENTION_MASK, TYPE_IDS, POSITION_IDS, VALID_LENGTH)


class ScriptedModel(nn.Module):
    """Gives a TorchScript module its inputs, made from those of a graph, and takes its outputs.

    Args:
        module: the module.
        wanted: its inputs in order, with their dtypes.
        inputs: the arguments of `forward`.
        outputs: its outputs in order, each with how it is pooled, or None.
        normalize: whether outputs are scaled to unit length.
    """

    def __init__(
        self,
        module: Any,
        wanted: Mapping[str, str],
        inputs: tuple[str, ...],
        outputs: Mapping[str, str | None],
        normalize: bool,
    ) -> None:
        super().__init__()
        self.module = module
        self.wanted = {name: getattr(torch, dtype) for name, dtype in wanted.items()}
        self.inputs = inputs
        self.outputs = dict(outputs)
        self.normalize = normalize

    def forward(self, *args: Tensor) -> tuple[Tensor, ...]:
        named = dict(zip(self.inputs, args, strict=True))
        mask = named.get(ATTENTION_MASK)
        made = dict(named)
        if POSITION_IDS in self.wanted and POSITION_IDS not in made:
            ids = named[IDS]
            made[POSITION_IDS] = torch.arange(ids.shape[1], device=ids.device).unsqueeze(0).expand(ids.shape[0], -1)
        if VALID_LENGTH not in made and mask is not None:
            made[VALID_LENGTH] = mask.sum(1)
        found = self.module(*[made[name].to(dtype) for name, dtype in self.wanted.items()])
        outputs = listed(found, self.outputs)
        if len(outputs) != len(self.outputs):
            raise SourceError(f"the module returns {len(outputs)} tensors, and outputs names {len(self.outputs)}")
        results = []
        for output, pooling in zip(outputs, self.outputs.values(), strict=True):
            values = output.float()
            if pooling and mask is not None:
                values = pool(values, mask.unsqueeze(-1).to(values.dtype), pooling)
            results.append(nn.functional.normalize(values, dim=-1) if self.normalize else values)
        return tuple(results)


def listed(found: Any, names: Mapping[str, Any]) -> list[Any]:
    """The outputs of a module in the order of their names, whether it returns one, several, or a dictionary."""
    if isinstance(found, dict):
        return [found[name] for name in names]
    return list(found) if isinstance(found, (tuple, list)) else [found]


def export_module(files: TorchScriptFiles, rule: OutputRule) -> ExportedModel:
    """Load the module of a spec, and check that its inputs and outputs are as the spec says.

    Args:
        files: the spec and its files.
        rule: what the outputs must be.

    Raises:
        SourceError: the files do not fit the spec.
    """
    spec = files.spec
    module = load_module(spec, files.module)
    wanted = inputs_of(spec, module)
    tokenizer, tensors = None, {}
    if files.preprocess:
        tensors = _tensors(spec, Preprocessor(files.preprocess, tuple(wanted)), wanted, files.folder)
        inputs = tuple(wanted)
    else:
        tokenizer = load_tokenizer(spec, Path(str(files.tokenizer)))
        inputs = _from_tokens(spec, wanted)
    outputs = {
        name: POOLING[output.pooling] if output.pooling else None for name, output in outputs_of(spec, rule).items()
    }
    if any(outputs.values()) and ATTENTION_MASK not in inputs:
        raise SourceError(f"{spec.name}: outputs: pooling needs {ATTENTION_MASK} among the inputs")
    scripted = ScriptedModel(module, wanted, inputs, outputs, bool(spec.normalize)).eval()
    example = spec.shapes.listed()[-1]._replace(packed=False)
    model = ExportedModel(
        module=scripted,
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
    return _checked(spec, model, rule)


def inputs_of(spec: Spec, module: Any) -> dict[str, str]:
    """The inputs of a module in order, with their dtypes: from the spec, else from the names of its arguments."""
    arguments = module.forward.schema.arguments[1:]
    names = [argument.name.partition(".")[0] for argument in arguments]
    required = sum(not argument.has_default_value() for argument in arguments)
    wanted = dict(spec.inputs) if spec.inputs else dict.fromkeys(names[:required], "int64")
    if not required <= len(wanted) <= len(arguments):
        raise SourceError(
            f"{spec.name}: inputs lists {len(wanted)}, and the module of {spec.source} takes {len(arguments)}: "
            f"{', '.join(names)}"
        )
    return dict(wanted)


def _from_tokens(spec: Spec, wanted: Mapping[str, str]) -> tuple[str, ...]:
    """The inputs of a graph from which those of the module are made."""
    others = [name for name in wanted if name not in FROM_TOKENS]
    if others:
        raise SourceError(
            f"{spec.name}: the module of {spec.source} takes {others[0]!r}, which a tokenizer does not give; name its "
            f"inputs, in its order, as {', '.join(FROM_TOKENS)}, or make them with preprocess"
        )
    needs_mask = any(output.pooling for output in (spec.outputs or {}).values()) or VALID_LENGTH in wanted
    needed = {IDS, *wanted, *((ATTENTION_MASK,) if needs_mask else ())}
    return tuple(name for name in (IDS, ATTENTION_MASK, TYPE_IDS) if name in needed)


def _tensors(spec: Spec, preprocessor: Preprocessor, wanted: Mapping[str, str], root: Path) -> dict[str, InputTensor]:
    """What the preprocessing module gives for each input, from what it gives for the examples."""
    takes = len(preprocessor.arguments)
    if takes != len(spec.fields):
        raise SourceError(
            f"{spec.name}: the forward of {spec.preprocess} takes {takes} texts, and fields names {len(spec.fields)}"
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
        floating = (
            np.issubdtype(array.dtype, np.floating) and wanted[name].startswith("float") and name != ATTENTION_MASK
        )
        tensors[name] = InputTensor("float32" if floating else "int64", array.ndim == 1, _padding(name, array, rows))
    return tensors


def _pads(preprocessor: Preprocessor, instances: Sequence[Instance], rows: Sequence[Row]) -> bool:
    """Whether the row of a text is longer beside those of other texts than alone."""
    return any(
        len(alone.ids) != len(row.ids)
        for one, row in zip(instances, rows, strict=True)
        for alone in rows_of(preprocessor.run([one]))
    )


def _padding(name: str, array: npt.NDArray[Any], rows: Sequence[Row]) -> float:
    """The value that the module itself writes after the end of a row; 0 if no row ends before its tensor does."""
    if array.ndim == 1:
        return 0
    for place, row in enumerate(rows):
        if len(row.ids) < array.shape[1]:
            return float(array[place, -1]) if name != POSITION_IDS else 0
    return 0


def _reason(error: Exception) -> str:
    """The line of a module's error that says what went wrong; TorchScript puts it behind a traceback of its code."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return (lines[-1] if "Traceback of TorchScript" in str(error) else lines[0])[:300]


def _checked(spec: Spec, model: ExportedModel, rule: OutputRule) -> ExportedModel:
    """Run the model once, and refuse outputs that are not what the spec says; finds which have a value per token."""
    shape = model.example
    try:
        found = _run(model, shape)
    except SourceError as error:
        raise SourceError(f"{spec.name}: source {spec.source}: {error}") from None
    except Exception as error:  # of the user's code
        raise SourceError(
            f"{spec.name}: the module of {spec.source} fails with inputs of the shape {shape}: {_reason(error)}. If it "
            "was traced for one shape, name that one in shapes.exact; else correct the order and dtypes of inputs"
        ) from None
    for name, output in zip(model.outputs, found, strict=True):
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
    return replace(model, token_outputs=_token_outputs(model, found) if rule.dims is None else ())


def _run(model: ExportedModel, shape: Shape) -> tuple[Tensor, ...]:
    with torch.no_grad():
        found: tuple[Tensor, ...] = model.module(*example_inputs(model, shape))
    return found


def _token_outputs(model: ExportedModel, found: Sequence[Tensor]) -> tuple[str, ...]:
    """The outputs whose second dimension follows the number of tokens; none if the module has one shape only."""
    shape = model.example
    try:
        shorter = _run(model, Shape(shape.batch_size, max(1, shape.sequence_length - 1)))
    except Exception:  # of the user's code, which was made for one shape
        return ()
    both = zip(model.outputs, found, shorter, strict=True)
    return tuple(name for name, one, other in both if one.ndim > 1 and one.shape[1] != other.shape[1])
