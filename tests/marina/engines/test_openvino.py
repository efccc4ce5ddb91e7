import subprocess
import sys

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
