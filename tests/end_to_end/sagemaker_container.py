"""Starts SageMaker's own program for PyTorch containers in a folder, as the entry point of AWS's images does.

What differs: the configuration goes to the working folder instead of /etc, and other servers on this machine are not
looked at. The base folder is in SAGEMAKER_BASE_DIR, the port in SAGEMAKER_BIND_TO_PORT.
"""

from __future__ import annotations

import os
import warnings

import psutil

warnings.simplefilter("ignore")
from sagemaker_pytorch_serving_container import serving, torchserve  # noqa: E402

processes = psutil.process_iter


def own() -> list[psutil.Process]:
    """The processes that use this server's configuration."""
    return [process for process in processes() if torchserve.TS_CONFIG_FILE in _line(process)]


def _line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


torchserve.TS_CONFIG_FILE = os.path.abspath("sagemaker-ts.properties")  # noqa: PTH100  as the original
torchserve.psutil.process_iter = own
serving.main()
