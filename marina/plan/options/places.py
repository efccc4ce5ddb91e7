"""The costs of models in each place to run: measured on this machine, estimated for instance types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from statistics import fmean

from handlers.worker.archive.artifact import ARTIFACT_FILE, read_artifact
from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.rows.plan import max_sequence_length
from handlers.worker.values import Shape
from marina.archive.describe import WORKER_BYTES
from marina.bench.report.machine import machine
from marina.bench.report.pricing import read_instances
from marina.compiler.cache import is_complete
from marina.compiler.graphs.times import read_measured, read_times
from marina.compiler.hugging_face import encoder_weights
from marina.compiler.sources import open_source
from marina.engines import engine_of
from marina.errors import MarinaError, SpecError
from marina.files import read_object
from marina.plan.calibration.costs import core_usage_of, costs_of
from marina.plan.calibration.record import SUFFIX, Calibration, WorkerCosts, read_calibration
from marina.plan.calibration.speed import probe
from marina.plan.options.candidates import MachineType, Variant
from marina.plan.options.estimates import BOUNDS, DEVICES, estimated_times, published_line, reported_line
from marina.plan.options.proposals import propose
from marina.plan.simulator.system import WorkerModel
from marina.plan.simulator.values import Ints
from marina.plan.workload import HERE
from marina.project import Project
from marina.server.run.state import DEFAULT_HOST, host_option
from marina.spec import Spec

REPORT = Path("build", "hardware", "report.json")  # of `make verify-hardware`
UNCOMPILED = "shapes that are not compiled yet"
ESTIMATE, ELSEWHERE = "estimate", "graphs as measured on an instance"
MIN_CHANGE = 0.1  # of the machine's speed, to speak of it
GRAPH_BYTES_A_WEIGHT = 2  # on a NeuronCore, in 16 bits


class Calibrated:
    """A model's artifacts that were calibrated on this machine, with the weights that the spec names now.

    Args:
        spec: of the model.
        project: of the spec.
        host: what carries the workers.

    Attributes:
        weights_fingerprint: of the weights that the spec names.
        calibrations: each with the folder of its artifact; the newest first.

    Raises:
        MarinaError: no artifact is calibrated, or the weights cannot be read.
    """

    def __init__(self, spec: Spec, project: Project, host: str) -> None:
        self.spec, self.project, self.host = spec, project, host
        here = machine()["processor"], len(cpu_cores())
        self.weights_fingerprint = open_source(spec, project.root).fingerprint()
        calibrations: list[tuple[Calibration, Path]] = []
        suffix = f".{host}{SUFFIX}"
        for path in (project.artifacts / spec.name).glob(f"*{suffix}"):
            artifact = path.with_name(path.name.removesuffix(suffix))
            calibration = read_calibration(artifact, host)
            if not calibration or (calibration.machine["processor"], calibration.cores) != here:
                continue
            if _has_weights(artifact, self.weights_fingerprint):
                calibrations.append((calibration, artifact))
        if not calibrations:
            with_host = "" if host == DEFAULT_HOST else f" with the host {host}"
            raise MarinaError(
                f"{spec.name} has not been calibrated on this machine{with_host}",
                f"marina calibrate {spec.name}{host_option(host)}",
            )
        self.calibrations = sorted(calibrations, key=lambda calibrated: calibrated[0].made, reverse=True)

    def compare_speed(self) -> str:
        """Measure how fast the machine is now; if it was faster or slower during the newest calibration, widen ranges.

        The ranges of older calibrations become wider by as much.

        Returns:
            What to say of it, or "".
        """
        newest, folder = self.calibrations[0]
        slowdown = probe(folder, newest.cores) / newest.probe_ms
        if abs(slowdown - 1) <= max(MIN_CHANGE, newest.noise):
            return ""
        for number, (calibration, artifact) in enumerate(self.calibrations):
            uncertainty = replace(calibration.uncertainty, now=slowdown)
            self.calibrations[number] = replace(calibration, uncertainty=uncertainty), artifact
        name = self.spec.name
        return (
            f"A graph of {name} takes {slowdown:.2g} times as long now as when it was calibrated. The figures are for "
            "the speed of that time, and their ranges include both. If the machine is not busy, calibrate again: "
            f"marina calibrate {name}{host_option(self.host)}"
        )

    @property
    def newest(self) -> Calibration:
        """The newest calibration."""
        return self.calibrations[0][0]

    @cached_property
    def max_tokens(self) -> int:
        """The longest shape of the newest artifact: a plan cuts texts to it."""
        _, folder = self.calibrations[0]
        return max_sequence_length(read_artifact(folder).shapes)

    def fits(self, shapes: Sequence[Shape]) -> bool:
        """Whether the longest texts of a plan fit into shapes; those of another artifact may read less of a text."""
        return max_sequence_length(shapes) >= self.max_tokens


def _has_weights(artifact: Path, fingerprint: str) -> bool:
    """Whether an artifact was compiled from the files with this fingerprint."""
    record = read_object(artifact / ARTIFACT_FILE) or {}
    return bool(record.get("source", {}).get("sha256") == fingerprint)


def place_here(
    models: Sequence[Calibrated],
    per_hour: float | None,
    client_here: bool = False,
    tokens: Sequence[Ints] | None = None,
) -> MachineType:
    """This machine, with every calibrated artifact of each model that reads as much as the newest one as a variant.

    Args:
        models: the models.
        per_hour: USD of a machine like this.
        client_here: whether the load generator computes on this machine too.
        tokens: of texts of each model, to propose shapes for, as one more variant; None for no proposals.
    """
    variants = []
    for number, model in enumerate(models):
        model_variants = []
        for calibration, folder in model.calibrations:
            artifact = read_artifact(folder)
            if not model.fits(artifact.shapes):
                continue
            costs = _costs(calibration, calibration.workers, client_here)
            shapes = tuple(map(str, artifact.shapes))
            model_variants.append(
                Variant(
                    artifact.engine,
                    artifact.precision,
                    shapes,
                    costs,
                    calibration.worker_mb,
                    uncertainty=calibration.uncertainty,
                )
            )
        if tokens is not None:
            model_variants += _proposed_variants(model_variants[0], model.calibrations[0], tokens[number])
        variants.append(tuple(model_variants))
    newest = [model.newest for model in models]
    return MachineType(
        name=HERE,
        host=models[0].host,
        cores=newest[0].cores,
        memory_gib=newest[0].machine["memory_gib"],
        per_hour=per_hour,
        contention=max(calibration.contention for calibration in newest),
        stolen=sum(calibration.server.stolen for calibration in newest) / len(newest),
        entering=sum(calibration.server.entering for calibration in newest) / len(newest),
        timer=newest[0].server.timer,
        exclusive=False,
        variants=tuple(variants),
    )


def _costs(
    calibration: Calibration, workers: Sequence[WorkerCosts], client_here: bool = False
) -> dict[int, WorkerModel]:
    """The costs of workers, by their number of cores."""
    all_cores, server = calibration.cores, calibration.server
    single_core_worker = next(worker for worker in workers if worker.cores == 1)
    return {
        worker.cores: costs_of(
            worker, server, worker.cores == all_cores, client_here, core_usage_of(worker, single_core_worker)
        )
        for worker in workers
    }


def _proposed_variants(present: Variant, calibrated: tuple[Calibration, Path], tokens: Ints) -> list[Variant]:
    """The newest variant with other shapes, if these suit the texts better."""
    calibration, folder = calibrated
    proposal = propose(calibration, tokens)
    if proposal is None:
        return []
    graph_mb = list(read_measured(folder).get("megabytes", {}).values())
    more_graphs = len(proposal.shapes) - len(present.shapes)
    costs = _costs(calibration, proposal.workers)
    megabytes = present.megabytes + more_graphs * (fmean(graph_mb) if graph_mb else 0.0)
    shapes, bounds = tuple(map(str, proposal.shapes)), (1 / (1 + proposal.error), 1 + proposal.error)
    return [present._replace(shapes=shapes, costs=costs, megabytes=megabytes, bounds=bounds, basis=UNCOMPILED)]


def place_of(name: str, models: Sequence[Calibrated], root: Path, tokens: Sequence[Ints] | None = None) -> MachineType:
    """An instance type, as an estimate.

    An instance without accelerators is estimated as this machine with another number of cores. For Inferentia and
    Trainium, graphs have the times that were measured when the model was compiled on such an instance; else their times
    are estimated. Everything else is as measured here. For `tokens` see `place_here`.

    Raises:
        SpecError: the type is not known.
        MarinaError: a model's graphs do not fit into the memory of its cores, or its spec reads less of a text than its
            newest calibration.
    """
    instance_types = read_instances(root)
    if name not in instance_types:
        raise SpecError(
            f"the instance type {name} is not known",
            f"write it into instances.yaml; known are {', '.join(sorted(instance_types))}",
        )
    instance, _ = instance_types[name]
    family = name.partition(".")[0].removesuffix("n")
    here = place_here(models, instance.on_demand, tokens=tokens)
    if not instance.cores:
        estimated = tuple(
            tuple(
                variant._replace(bounds=BOUNDS, basis=ESTIMATE, uncertainty=replace(variant.uncertainty, now=1.0))
                for variant in model_variants
            )
            for model_variants in here.variants
        )
        return here._replace(name=name, cores=instance.vcpu, memory_gib=instance.memory_gib, variants=estimated)
    if family not in DEVICES:
        raise SpecError(f"no published figures are known for {name}, so nothing can be estimated for it")
    variants = tuple(tuple(_device_variants(family, model, root)) for model in models)
    # workers have CPU cores of their own there, so the host takes nothing from them
    return here._replace(
        name=name,
        cores=instance.cores,
        memory_gib=instance.memory_gib,
        contention=0.0,
        stolen=0.0,
        exclusive=True,
        variants=variants,
    )


def _device_variants(family: str, model: Calibrated, root: Path) -> Iterator[Variant]:
    spec, calibration, engine = model.spec, model.newest, DEVICES[family].engine
    worker = next(worker for worker in calibration.workers if worker.cores == 1)
    costs = costs_of(worker, calibration.server, alone=False, client_here=False)
    source = open_source(spec, root)
    total = source.count_weights()
    megabytes = (WORKER_BYTES + total * GRAPH_BYTES_A_WEIGHT) / 1e6
    measured, memory = False, engine_of(engine).memory_on(family)
    uncertainty = replace(calibration.uncertainty, now=1.0)
    for folder in (root / "build" / "artifacts" / spec.name).glob("*"):
        if not _has_weights(folder, model.weights_fingerprint) or not is_complete(folder):
            continue
        artifact, times = read_artifact(folder), read_times(folder)
        if artifact.engine == engine and set(times) == set(artifact.shapes) and model.fits(artifact.shapes):
            graph_costs = costs._replace(times=times, again=times)
            shape_names = tuple(map(str, artifact.shapes))
            yield Variant(
                engine, artifact.precision, shape_names, {1: graph_costs}, megabytes, None, ELSEWHERE, uncertainty
            )
            measured = True
    if not measured:
        shapes = spec.shapes.listed()
        if not model.fits(shapes):
            raise MarinaError(
                f"{spec.name}: the longest shape of its spec has {max_sequence_length(shapes)} tokens, and that of its "
                f"newest calibration {model.max_tokens}, so nothing can be estimated for the spec",
                f"marina calibrate {spec.name}{host_option(model.host)}",
            )
        max_graphs = memory.graphs(total) if memory else len(shapes)
        if memory and len(shapes) > max_graphs:
            raise MarinaError(
                f"{spec.name}: a core of {memory.device} has room for about {max_graphs} of its graphs, and its spec "
                f"has {len(shapes)} shapes",
                f"marina shapes {spec.name} --graphs {max_graphs} --write" if max_graphs else "use other instances",
            )
        line = reported_line(root / REPORT, family) or published_line(family)
        times = estimated_times(line, encoder_weights(source.folder, total), shapes)
        graph_costs = costs._replace(times=times, again=times)
        shape_names = tuple(map(str, shapes))
        yield Variant(engine, "auto", shape_names, {1: graph_costs}, megabytes, BOUNDS, ESTIMATE, uncertainty)
