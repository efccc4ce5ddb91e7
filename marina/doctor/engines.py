"""Checks of engines: packages, and for Neuron the driver, its devices, and who holds their cores."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from handlers.worker.engines.packages import COMPILERS, INSTALL, RUNTIMES, installed, is_placeholder
from handlers.worker.errors import PlacementError
from handlers.worker.placement import NEURON_ENGINES
from handlers.worker.placement.discovery import DEVICES, allowed_cores, cpu_cores, neuron_cores
from handlers.worker.placement.leases import leases_folder, read_holders
from marina.findings import Finding, fails, note, ok

PACKAGES = {"openvino": ("openvino", "tokenizers", "orjson"), "torchscript": ("safetensors", "tokenizers", "orjson")}
# that the last releases of the SDK's packages are built for
PYTHONS = {"neuron": ((3, 8), (3, 10)), "neuronx": ((3, 11), (3, 13))}
STACKS = {"neuron": "inf1", "neuronx": "inf2"}  # files in requirements/
DRIVER_VERSION = Path("/sys/module/neuron/version")


def check_engines(engines: Sequence[str]) -> list[Finding]:
    """What engines need on this machine."""
    on_neuron = [engine for engine in engines if engine in NEURON_ENGINES]
    on_cpu = [engine for engine in engines if engine not in NEURON_ENGINES]
    packages = {name: engine for engine in on_cpu for name in PACKAGES[engine]}
    findings = [_package(engine, name) for name, engine in packages.items()]
    findings += [finding for engine in on_neuron for finding in _neuron_packages(engine)]
    if on_cpu:
        findings.append(_cpu_cores())
    if on_neuron:
        findings += [_driver(), _neuron_cores(), *_holders()]
    return findings


def _package(engine: str, name: str) -> Finding:
    found = installed(name)
    return ok(name, found) if found else fails(name, "not installed", f"the engine {engine} needs it: make setup")


def _cpu_cores() -> Finding:
    cores, allowed = cpu_cores(), allowed_cores()
    if len(cores) < len(allowed):
        return ok("CPU cores", f"{len(cores)} of {len(allowed)}: a quota of CPU time allows no more")
    return ok("CPU cores", f"{len(cores)}: {','.join(str(core) for core in cores)}")


def _neuron_packages(engine: str) -> list[Finding]:
    findings = []
    if engine == "neuronx" and is_placeholder("libneuronxla"):
        findings.append(fails("libneuronxla", "a placeholder from PyPI, whose import raises", _install(engine)))
    for name in (RUNTIMES[engine], COMPILERS[engine]):
        found = installed(name)
        if found and not is_placeholder(name):
            findings.append(ok(name, found))
        elif found:
            findings.append(fails(name, f"{found} is a placeholder from PyPI, whose import raises", _install(engine)))
        elif name == COMPILERS[engine]:
            findings.append(note(name, "not installed; it is needed for compiling only", _install(engine)))
        else:
            findings.append(fails(name, "not installed", _install(engine)))
    return findings


def _install(engine: str) -> str:
    """How to get an engine's packages, with another Python if need be."""
    oldest, newest = PYTHONS[engine]
    if oldest <= sys.version_info[:2] <= newest:
        return INSTALL[engine]
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"there is none for Python {here}: make setup PYTHON=python3.{newest[1]} STACK={STACKS[engine]}"


def _driver() -> Finding:
    devices = len([path for path in DEVICES.glob("neuron*") if path.name.removeprefix("neuron").isdecimal()])
    version = DRIVER_VERSION.read_text().strip() if DRIVER_VERSION.is_file() else "of unknown version"
    if devices:
        return ok("Neuron driver", f"{version}, {devices} devices")
    return note(
        "Neuron driver",
        "no /dev/neuron device",
        "on an instance install aws-neuronx-dkms; in a container pass --device=/dev/neuron0",
    )


def _neuron_cores() -> Finding:
    try:
        cores = neuron_cores()
    except PlacementError as error:
        return fails("NeuronCores", "none", str(error))
    return ok("NeuronCores", f"{len(cores)}: {','.join(str(core) for core in cores)}")


def _holders() -> list[Finding]:
    held = read_holders(leases_folder("neuron"))
    return [note("NeuronCores in use", ", ".join(map(str, held)), "a model needs cores that are free")] if held else []
