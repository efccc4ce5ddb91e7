"""A stand-in for DataParallel: one graph on several cores, each with a share of the rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from neuron_standin import RUNTIME, header_of


class DataParallel:
    """What `torch.neuron.DataParallel` and `torch_neuronx.DataParallel` have in common."""

    def __init__(self, model: Any, device_ids: Any, dim: int, dynamic: bool) -> None:
        self._header = header_of(model)
        if self._header["pipeline_cores"] > 1:
            raise RuntimeError("DataParallel does not support NeuronCore Pipeline models")
        cores = RUNTIME.claim()
        ids = [int(str(device).removeprefix("nc:")) for device in device_ids] if device_ids else range(len(cores))
        if not all(0 <= number < len(cores) for number in ids):
            raise ValueError(f"device_ids {list(ids)} are not within this process's {len(cores)} NeuronCores")
        self._model, self._dim, self._dynamic = model, dim, dynamic and dim == 0
        self._count = len(list(ids))
        # contiguous cores share one loaded module, for which two threads are made (torch-neuronx's data_parallel.py)
        contiguous = list(ids) == list(range(min(ids), min(ids) + self._count))
        self.num_workers = 2 if contiguous else 2 * self._count
        self.split_size: int | None = None

    def disable_dynamic_batching(self) -> None:
        self._dynamic = False

    def __call__(self, *inputs: torch.Tensor) -> Any:
        rows, compiled = inputs[0].shape[self._dim], self._header["shapes"][0][self._dim]
        size = self.split_size or max(1, rows // self._count)
        if not self._dynamic and rows / self._count != compiled:
            raise RuntimeError(f"without dynamic batching {self._count} times {compiled} rows are needed, not {rows}")
        # dynamic batching divides chunks that are larger than what was compiled
        chunks = list(zip(*(tensor.split(min(size, compiled), self._dim) for tensor in inputs), strict=True))
        with ThreadPoolExecutor(self.num_workers) as threads:
            parts = list(threads.map(self._run, chunks))
        return tuple(torch.cat(outputs, self._dim) for outputs in zip(*parts, strict=True))

    def _run(self, chunk: Any) -> Any:
        rows, compiled = chunk[0].shape[self._dim], self._header["shapes"][0][self._dim]
        padded = [torch.cat([tensor, tensor[:1].expand(compiled - rows, *tensor.shape[1:])]) for tensor in chunk]
        return [output[:rows] for output in self._model(*padded)]
