"""Discovers the cores of this host."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from handlers.worker.errors import PlacementError
from handlers.worker.placement.groups import Group, parse_cores
from handlers.worker.placement.limits import cpu_quota

VISIBLE_CORES = "NEURON_RT_VISIBLE_CORES"
NEURON_LS = "/opt/aws/neuron/bin/neuron-ls"
NEURON_LS_TIMEOUT_S = 30
SYSFS = Path("/sys/devices/virtual/neuron_device")
DEVICES = Path("/dev")
PRODUCT = Path("/sys/devices/virtual/dmi/id/product_name")
NEURON_FAMILIES = ("inf", "trn")  # what the names of instance types with NeuronCores begin with
# how many physical cores a logical one has: by this variable, or by this file where AWS's page on EKS sets it
LOGICAL_CORES = "NEURON_LOGICAL_NC_CONFIG"
LOGICAL_CORES_FILE = Path("/opt/aws/neuron/logical_nc_config")
LOGICAL_FAMILIES = ("trn2", "trn3")  # their default is 2; others have no logical cores


def allowed_cores() -> Group:
    """The CPU cores that this process may run on."""
    return tuple(sorted(os.sched_getaffinity(0)))


def cpu_cores() -> Group:
    """The CPU cores that this process may keep busy: as many allowed cores as its CPU quota permits, at least 1."""
    allowed, quota = allowed_cores(), cpu_quota()
    return allowed if quota is None else allowed[: max(1, int(quota))]


def instance_type() -> str:
    """The type of this instance, for example inf2.xlarge; "" if the machine does not say."""
    try:
        return PRODUCT.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def physical_cores(instance: str) -> int:
    """The physical cores of each core that the runtime numbers on an instance: 1, or 2 on Trainium 2 and 3 by default.

    Source: "Logical NeuronCore configuration" in the AWS Neuron SDK's documentation.

    Raises:
        PlacementError: the variable or the file is not 1 or 2.
    """
    if not instance.startswith(LOGICAL_FAMILIES):
        return 1
    lines = LOGICAL_CORES_FILE.read_text(encoding="utf-8").splitlines() if LOGICAL_CORES_FILE.is_file() else []
    in_file = dict(line.strip().split("=", 1) for line in lines if "=" in line)
    text = os.environ.get(LOGICAL_CORES, "").strip() or in_file.get(LOGICAL_CORES, "2")
    if text not in ("1", "2"):
        raise PlacementError(LOGICAL_CORES, f"{text} is not 1 or 2", ": ")
    return int(text)


def neuron_cores() -> Group:
    """The NeuronCores that this process may use, in the numbering of the whole instance.

    A scheduler such as Kubernetes sets them in NEURON_RT_VISIBLE_CORES. Otherwise they are all cores that `neuron-ls`
    lists. If `neuron-ls` is missing or prints no JSON (before Neuron 2.24), they are all cores that
    the driver's sysfs counts. On Trainium 2 and 3 they are logical cores.

    Raises:
        PlacementError: there are none, or the variable cannot be parsed.
    """
    visible = os.environ.get(VISIBLE_CORES, "").strip()
    if visible:
        try:
            return parse_cores(visible)
        except ValueError as error:
            raise PlacementError(VISIBLE_CORES, str(error), ": ") from None
    cores = cores_of_devices(list_devices()) or cores_of_sysfs(SYSFS, DEVICES, physical_cores(instance_type()))
    if not cores:
        raise PlacementError(
            "no NeuronCore found",
            "neuron-ls lists no device and the driver shows none; this must be an Inferentia or Trainium instance with "
            "the driver (aws-neuronx-dkms), and a container needs its devices: --device=/dev/neuron0",
            ": ",
        )
    return cores


def list_devices() -> Any:
    """The output of `neuron-ls --json-output`; an empty list if it does not run or prints no JSON."""
    program = shutil.which("neuron-ls") or NEURON_LS
    try:
        output = subprocess.run(
            [program, "--json-output"], capture_output=True, timeout=NEURON_LS_TIMEOUT_S, check=False
        ).stdout
        return json.loads(output)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []


def cores_of_devices(devices: Any) -> Group:
    """The cores in the output of `neuron-ls`: by their numbers, or counted if it has none (before Neuron 2.25)."""
    cores: set[int] = set()
    for device in devices if isinstance(devices, list) else []:
        if not isinstance(device, dict):
            continue
        numbers, count, index = (device.get(name) for name in ("neuroncore_ids", "nc_count", "neuron_device"))
        if isinstance(numbers, list) and numbers and all(isinstance(number, int) for number in numbers):
            cores |= set(numbers)
        elif isinstance(count, int) and isinstance(index, int):
            cores |= set(range(index * count, (index + 1) * count))
    return tuple(sorted(cores))


def cores_of_sysfs(folder: Path, devices: Path, physical: int = 1) -> Group:
    """The cores that the Neuron driver counts in `neuron<N>/core_count`, for the devices that are present.

    The driver counts physical cores; `physical` of them are one core for the runtime.
    """
    cores: set[int] = set()
    for path in folder.glob("neuron*/core_count"):
        index = path.parent.name.removeprefix("neuron")
        try:
            count = int(path.read_text()) // physical
        except (OSError, ValueError):
            continue
        # a container sees the core counts of all devices, but only its own device files
        if index.isdecimal() and (devices / path.parent.name).exists():
            cores |= set(range(int(index) * count, (int(index) + 1) * count))
    return tuple(sorted(cores))
