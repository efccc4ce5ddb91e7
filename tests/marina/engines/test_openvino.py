import logging
import subprocess
import sys
from typing import Any

import pytest

from handlers.worker.values import Shape
from marina.engines import openvino as module
from tests.conftest import needs_openvino

CODE = """
import socket, sys
from handlers.worker.engines.openvino import import_openvino
openvino = import_openvino()
import torch
def refuse(*_, **__):
    raise AssertionError("a connection was tried")
socket.socket.connect = refuse
openvino.convert_model(torch.nn.Linear(2, 2), example_input=torch.ones(1, 2))
assert "openvino_telemetry.main" not in sys.modules
import openvino.tools.ovc.telemetry_utils as used
assert used.tm.__name__ == "openvino.tools.ovc.telemetry_stub", used.tm
"""


@needs_openvino
def test_converting_tells_nobody() -> None:
    result = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@needs_openvino
def test_a_model_that_cannot_be_converted_leaves_the_root_logger_as_it_was() -> None:
    torch = pytest.importorskip("torch")

    class Bessel(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return torch.special.bessel_j0(x)

    class Exported:
        inputs, outputs, example = ["x"], ["y"], Shape(1, 2)

        def module_for(self, _: Shape) -> Any:
            return Bessel()

    root = logging.getLogger()
    before = root.level, list(root.filters), list(root.handlers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "example_inputs", lambda *_: (torch.ones(1, 2),))
        with pytest.raises(Exception, match="bessel_j0"):
            module._convert(Exported(), packed=False)  # type: ignore[arg-type]
    assert (root.level, root.filters, root.handlers) == before
