"""What a machine needs to serve with the Neuron SDK: each missing step is a finding with the command that cures it.

Sources: the SDK's pages on installing (setup/pytorch/manual.rst), its release manifest for versions, and the driver's
udev rules.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from handlers.worker.engines.packages import NeuronSdk, find_program, installed, is_placeholder, missing_program
from handlers.worker.engines.releases import UNFIT
from handlers.worker.errors import PlacementError
from handlers.worker.placement import GROUP_SIZES, NEURONCORES, server_groups
from handlers.worker.placement.discovery import (
    DEVICES,
    NEURON_FAMILIES,
    SYSFS,
    instance_type,
    neuron_cores,
    physical_cores,
)
from handlers.worker.placement.groups import lay_out
from handlers.worker.placement.leases import leases_folder, read_holders
from marina.engines.values import DeviceMemory
from marina.findings import Finding, fails, note, ok

DRIVER_VERSION = Path("/sys/module/neuron/version")
RUNTIME_LIBRARIES = Path("/opt/aws/neuron/lib")
RUNTIME_PACKAGE = "aws-neuronx-runtime-lib"
CORE_MEMORY = "neuron*/neuron_core*/stats/memory_usage/device_mem"  # the SDK's user guide of sysfs
FULL = 0.9  # the share of a core's memory from which on it counts as full
COMPILER_BYTES = 12e9  # compiles of BERT were killed on 8 GiB (aws-neuron-sdk #439, #1064)
APT = "sudo apt-get install"


class Packages(NamedTuple):
    """The needs of an instance besides Python packages.

    Attributes:
        instances: prefixes of the instance types with the engine's cores.
        driver: the versions of the driver that support them.
        install_driver: the command that installs it.
        install_runtime: the command that installs the runtime's library; "" if the Python package has its own.
        limits: Python packages that must have other versions than the newest, by the reason.
        refused: families of instances that no engine is for, with what to do instead.
    """

    instances: tuple[str, ...]
    driver: SpecifierSet
    install_driver: str
    install_runtime: str
    limits: Mapping[str, tuple[SpecifierSet, str]]
    refused: Mapping[str, str] = {}


def check_machine(sdk: NeuronSdk, packages: Packages) -> list[Finding]:
    """Check an instance from its type to a device that can be opened."""
    return [*_instance(sdk, packages), _driver(packages), _devices(), *_runtime(packages), *_cores()]


def check_device_memory(memory: DeviceMemory) -> list[Finding]:
    """Compare the memory in use with that of a core; nothing where the driver shows none."""
    used, peak = device_memory("total"), device_memory("peak")
    if not peak:
        return []
    bytes_a_core = memory.bytes_a_core / memory.physical * physical_cores(instance_type())
    text = f"up to {used / 1e9:.1f} of {bytes_a_core / 1e9:.0f} GB of a core in use, {peak / 1e9:.1f} GB at peak"
    if used > FULL * bytes_a_core:
        return [note("device memory", text, "compile fewer or smaller shapes before you add a model")]
    return [ok("device memory", text)]


def device_memory(counter: str = "total") -> int:
    """The bytes of device memory of the fullest core, now ("total") or at most ("peak"); 0 if the driver shows none."""
    texts = [_read(path / counter) for path in SYSFS.glob(CORE_MEMORY)]
    return max((int(text) for text in texts if text.isdecimal()), default=0)


def check_programs(sdk: NeuronSdk) -> list[Finding]:
    """Check the programs that the SDK's Python packages run."""
    if not _is_real(sdk.runtime):
        return []
    findings = []
    for name in (*sdk.programs, *([sdk.compiler] if _is_real(sdk.compiler) else [])):
        program = find_program(name)
        findings.append(
            ok(f"{name} (program)", program)
            if program
            else fails(f"{name} (program)", "none", missing_program(sdk, name))
        )
    return findings


def check_limits(packages: Packages) -> list[Finding]:
    """Check the versions of packages that are known to break the SDK's."""
    findings = []
    for name, (supported, reason) in packages.limits.items():
        installed_version = installed(name)
        if installed_version and installed_version not in supported:
            findings.append(fails(name, f"{installed_version}; {reason}", f"pip install '{name}{supported}'"))
    return findings


def check_memory(free: int) -> Finding:
    """Check the memory for compiling, in bytes."""
    if free < COMPILER_BYTES:
        fix = "compile on a larger machine, which needs no device, and copy model_store/*.mar"
        return note("memory for compiling", f"{free / 1e9:.1f} GB free, 12 GB are safe for BERT-base", fix)
    return ok("memory for compiling", f"{free / 1e9:.1f} GB free")


def _is_real(package: str) -> bool:
    return installed(package) is not None and not is_placeholder(package)


def _instance(sdk: NeuronSdk, packages: Packages) -> list[Finding]:
    kind = instance_type()
    if not kind.startswith(NEURON_FAMILIES):
        return []
    if kind.startswith(packages.instances):
        return [ok("instance", kind)]
    supported = " and ".join(packages.instances)
    advice = (fix for family, fix in packages.refused.items() if kind.startswith(family))
    fix = next(advice, "choose the other Neuron engine")
    return [fails("instance", f"{kind}; the engine {sdk.engine} is for {supported}", fix)]


def _driver(packages: Packages) -> Finding:
    driver_version = _read(DRIVER_VERSION)
    if not driver_version:
        return note("Neuron driver", "not loaded", f"on an instance: {packages.install_driver}; sudo modprobe neuron")
    if not _within(driver_version, str(packages.driver)) and _within(driver_version, ""):
        return fails(
            "Neuron driver", f"{driver_version}; these instances need {packages.driver}", packages.install_driver
        )
    return ok("Neuron driver", driver_version)


def _devices() -> Finding:
    """Open every device, as the runtime does, and close it again."""
    devices = sorted(path for path in DEVICES.glob("neuron*") if path.name.removeprefix("neuron").isdecimal())
    if not devices:
        fix = "on an instance install the driver; in a container pass --device=/dev/neuron0"
        return note("Neuron devices", "no /dev/neuron device", fix)
    for path in devices:
        error_number = _open_error(path)
        if error_number is None:
            continue
        if error_number in (errno.EACCES, errno.EPERM):
            # the driver gives every user rights; AWS's page on security shows a group instead
            group = "sudo usermod -aG neuron $USER and log in again, if the group owns it; else sudo chmod 666 "
            return fails("Neuron devices", f"{path} may not be opened by user {os.getuid()}", f"{group}{path}")
        return fails(
            "Neuron devices", f"{path}: {os.strerror(error_number)}", "sudo rmmod neuron; sudo modprobe neuron"
        )
    return ok("Neuron devices", f"{len(devices)}, each can be opened")


def _open_error(path: Path) -> int | None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return error.errno
    return None


def _runtime(packages: Packages) -> list[Finding]:
    if not packages.install_runtime:
        return []
    libraries = sorted(RUNTIME_LIBRARIES.glob("libnrt.so*"))
    if not libraries:
        fix = f"on an instance: {packages.install_runtime}"
        return [note("Neuron runtime", f"no libnrt.so in {RUNTIME_LIBRARIES}", fix)]
    runtime, driver = runtime_version(), _read(DRIVER_VERSION)
    if not runtime:
        return [ok("Neuron runtime", str(libraries[0]))]
    reason = unfit(driver, runtime)
    if reason:
        both = f"{runtime} does not fit driver {driver}: {reason}"
        return [fails("Neuron runtime", both, f"{packages.install_driver}; {packages.install_runtime}")]
    return [ok("Neuron runtime", f"{runtime}, {libraries[0]}")]


def runtime_version() -> str:
    """The version of the runtime's Debian or RPM package; "" if neither has it."""
    for query in (["dpkg-query", "--show", "--showformat=${Version}"], ["rpm", "--query", "--queryformat=%{VERSION}"]):
        if shutil.which(query[0]):
            done = subprocess.run([*query, RUNTIME_PACKAGE], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return done.stdout.partition("-")[0].strip()
    return ""


def unfit(driver: str, runtime: str) -> str:
    """Why a driver and a runtime do not fit each other; "" if they do, as far as AWS says."""
    pairs = (pair for pair in UNFIT if _within(driver, pair.drivers) and _within(runtime, pair.runtimes))
    return next((pair.reason for pair in pairs), "")


def _within(version: str, specifier: str) -> bool:
    """Whether a version is known and within a specifier."""
    try:
        return Version(version) in SpecifierSet(specifier)
    except InvalidVersion:
        return False


def _cores() -> list[Finding]:
    """The cores, whether the groups of the environment fit, and who holds which."""
    try:
        cores = neuron_cores()
        findings = [ok("NeuronCores", f"{len(cores)}: {','.join(str(core) for core in cores)}")]
        groups: Sequence[int] = server_groups() or ()
        if None in lay_out(groups, cores):
            layout = f"{','.join(map(str, groups))} on {len(cores)} cores"
            findings.append(fails(GROUP_SIZES, layout, f"{GROUP_SIZES} must add up to at most {len(cores)}"))
        holders = ", ".join(map(str, read_holders(leases_folder(NEURONCORES.leases))))
    except PlacementError as error:
        return [fails("NeuronCores", "none", str(error))]
    return [*findings, *([note("NeuronCores in use", holders, "a model needs cores that are free")] if holders else [])]


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
