"""Turns instances into rows with a TorchScript module that takes the place of a tokenizer.

Its forward takes one argument per field of an instance: a text (`str`), or the texts of all instances (`List[str]`). It
returns a tensor per input of the model, by name (`Dict[str, Tensor]`) or in order: of shape (instances, tokens), or
(instances,) for a value per row; without the first dimension if it takes single texts.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from handlers.worker.archive.signature import ATTENTION_MASK, INPUT_IDS, VALID_LENGTH
from handlers.worker.errors import ArtifactError, RequestError
from handlers.worker.scripts import load_script
from handlers.worker.tokens.tokenizer import Text, Tokenized, Window
from handlers.worker.values import Instance, Json, Row

Arrays = Mapping[str, npt.NDArray[Any]]
K = TypeVar("K", bound=Hashable)


class Preprocessor:
    """A preprocessing module.

    Args:
        path: the TorchScript file, which is code and is trusted.
        inputs: the names of the model's inputs, in order.

    Raises:
        ArtifactError: the file cannot be loaded, or its forward takes no texts.
    """

    def __init__(self, path: Path, inputs: Sequence[str]) -> None:
        try:
            self._module = load_script(path, "cpu").eval()
        except (RuntimeError, ValueError, OSError) as error:
            raise ArtifactError(f"{path} cannot be loaded: {' '.join(str(error).split())[:300]}") from None
        self._inputs = inputs
        self.arguments = [str(argument.type) for argument in self._module.forward.schema.arguments[1:]]
        if not self.arguments or set(self.arguments) not in ({"str"}, {"List[str]"}):
            raise ArtifactError(
                f"{path} takes {', '.join(self.arguments) or 'nothing'}; its forward must take texts, each of them str "
                "or each of them List[str]"
            )

    def tokens(self, _: Text, __: bool, ___: int) -> tuple[list[Json], bool]:
        """A RequestError: the module gives no tokens of texts."""
        raise RequestError(
            "InvalidBody", "this model has a preprocessing module, and no tokenizer whose tokens it could show"
        )

    def encode(self, texts: Mapping[K, Text], _: bool = False) -> dict[K, Tokenized | RequestError]:
        """The row of each text, or the error if it has none, under the text's key; see `RowTokenizer.encode`."""
        distinct = list(dict.fromkeys(instance for instance, _ in texts.values()))
        rows: dict[Instance, Row | RequestError]
        try:
            rows = dict(zip(distinct, self._rows(distinct), strict=True))
        except Exception:  # of the user's code: find out which instance caused it
            rows = {instance: self._single_row(instance) for instance in distinct}
        return {key: _tokenized(rows[instance], window) for key, (instance, window) in texts.items()}

    def run(self, instances: Sequence[Instance]) -> Arrays:
        """The module's tensors for instances, by the names of the inputs, with the instances as first dimension."""
        import torch

        with torch.inference_mode():
            if self.arguments[0] == "str":
                results = [self._by_name(self._module(*instance.texts)) for instance in instances]
                return {name: _stacked([result[name] for result in results]) for name in self._inputs}
            columns = [list(column) for column in zip(*(instance.texts for instance in instances), strict=True)]
            return {name: tensor.numpy() for name, tensor in self._by_name(self._module(*columns)).items()}

    def _by_name(self, result: Any) -> dict[str, Any]:
        if not isinstance(result, dict):
            result = dict(zip(self._inputs, result if isinstance(result, (tuple, list)) else [result], strict=False))
        return {name: result[name] for name in self._inputs}

    def _rows(self, instances: Sequence[Instance]) -> list[Row]:
        rows = rows_of(self.run(instances)) if instances else []
        if len(rows) != len(instances):
            raise ValueError(f"the preprocessing module gives {len(rows)} rows for {len(instances)} instances")
        return rows

    def _single_row(self, instance: Instance) -> Row | RequestError:
        try:
            (row,) = self._rows([instance])
            return row
        except Exception as error:
            # its message may contain the client's text
            logging.getLogger(__name__).error("the preprocessing module failed with %s", type(error).__name__)
            return RequestError("InvalidText", "the preprocessing module cannot read the text")


def rows_of(arrays: Arrays) -> list[Row]:
    """A row per instance, without the padding that the module added at its end.

    A row ends where its attention mask does, or after its valid length; if the module gives neither, nothing is cut.

    Raises:
        ValueError: the tensors have different numbers of rows or of tokens, or padding comes before a token.
    """
    for name, array in arrays.items():
        if array.ndim not in (1, 2):
            raise ValueError(f"{name} has {array.ndim} dimensions; it must have one, or two")
    widths = {array.shape[1] for array in arrays.values() if array.ndim == 2}
    counts = {len(array) for array in arrays.values()}
    if len(widths) != 1 or len(counts) != 1:
        raise ValueError(f"tensors have {sorted(counts)} rows of {sorted(widths)} tokens; they must be as many")
    (width,), (count,) = widths, counts
    rows = []
    for index in range(count):
        length = width
        if ATTENTION_MASK in arrays:
            tokens = np.flatnonzero(arrays[ATTENTION_MASK][index])
            length = len(tokens)
            if length and tokens[-1] != length - 1:
                raise ValueError(f"{ATTENTION_MASK} has zeros before ones; padding must come last")
        elif VALID_LENGTH in arrays:
            length = int(arrays[VALID_LENGTH][index])
        tensors = {
            name: array[index, :length].tolist() if array.ndim == 2 else array[index].item()
            for name, array in arrays.items()
        }
        rows.append(Row(tensors.get(INPUT_IDS, [0] * length), [0] * length, 0, tensors))
    return rows


def _tokenized(row: Row | RequestError, window: Window) -> Tokenized | RequestError:
    if isinstance(row, RequestError):
        return row
    if not row.ids:
        return RequestError("NoTokens", "the text has no tokens")
    if len(row.ids) > window.max_length:
        message = f"the preprocessing module makes {len(row.ids)} tokens; at most {window.max_length} are allowed"
        return RequestError("TextTooLong", message)
    return Tokenized([row], [], truncated=False)


def _stacked(tensors: Sequence[Any]) -> npt.NDArray[Any]:
    """Tensors of single texts as one array; shorter tensors are padded with zeros."""
    arrays = [tensor.numpy() for tensor in tensors]
    # a module for single texts may keep the dimension of the batch
    arrays = [array[0] if array.ndim == 2 else array for array in arrays]
    width = max((array.shape[0] for array in arrays if array.ndim), default=0)
    return np.stack([np.pad(array, (0, width - len(array))) if array.ndim else array for array in arrays])
