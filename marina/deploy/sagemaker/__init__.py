"""`marina deploy sagemaker`: endpoints with Marina's image, or with model.tar.gz for AWS's PyTorch containers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from handlers.worker.archive.artifact import sha256_of
from marina.archive.describe import Archive
from marina.bench.report.results import read_result
from marina.deploy.folder import new_folder, render
from marina.deploy.image import common_pins, deploy_image
from marina.deploy.needs import host_of
from marina.deploy.sagemaker.model_data import added_packages, write_model_data
from marina.deploy.scale import read_scale
from marina.deploy.source import instance_types, names_of, stack_of
from marina.errors import DeployError
from marina.files import write_json
from marina.project import Project
from marina.server.run.state import DIRECT, TORCHSERVE

FILES = Path(__file__).parent / "files"
STACKS = ("cpu", "inf1", "inf2")
# AWS's guide "Load testing your auto scaling configuration": half of the rate at the limit, per minute
SAFETY_FACTOR, MINUTE_S = 0.5, 60
STARTUP_S, MAX_STARTUP_S = 600, 3600  # of a container: the least, and the limit of SageMaker
INSTANCES = 2  # in two availability zones; SageMaker replaces one while the other answers


def deploy_sagemaker(
    project: Project,
    archives: Sequence[Archive],
    output: Path,
    functions: bool,
    bench: Path | None,
    plan: Path | None = None,
    aws_image: bool = False,
    host: str | None = None,
) -> None:
    """Write the folder of Marina's image or every archive's model.tar.gz, endpoints.json, and the files that read it.

    Args:
        project: the project whose configuration Marina's image gets.
        archives: each becomes an endpoint.
        output: the folder to write, which must not exist.
        functions: whether model.tar.gz has code/inference.py with model_fn, input_fn, predict_fn and output_fn, in
            place of the archive's handler.
        bench: a result.json of `marina bench`, for the target of autoscaling.
        plan: a plan.json of `marina plan --write`, for the instances and the target of autoscaling.
        aws_image: whether AWS's image runs the archives of CPUs, as it does those of Neuron and `functions`.
        host: of Marina's image; by default the plan's, or else `direct`.

    Raises:
        DeployError: SageMaker cannot run an archive, has no instance with its cores or does not wait until it has
            started, the archives need different images, `output` exists, `bench` has no rate of these models, or `plan`
            is not for this one.
    """
    for archive in archives:
        if archive.hosting.not_on_sagemaker:
            raise DeployError(
                f"{archive.name} does not start on SageMaker, whose hosts have an older driver: "
                f"{archive.hosting.not_on_sagemaker}",
                "compile it with the SDK that SageMaker's hosts run (make setup STACK=inf2-sagemaker), or deploy it to "
                "ECS, Kubernetes or an instance",
            )
    has_image = stack_of(archives, STACKS, "SageMaker") == "cpu" and not (functions or aws_image)
    archives_by_name = names_of(archives)
    if bench and plan:
        raise DeployError("--bench and --plan both say when to scale", "give one of them")
    if plan and len(archives) > 1:
        raise DeployError(
            "a plan is for models that share instances, and every endpoint has its own", "deploy one archive"
        )
    scale = read_scale(plan, archives, host) if plan else None
    host = host_of(host, scale, DIRECT if has_image else TORCHSERVE)
    if not has_image and host != TORCHSERVE:
        fix = "leave --host and MARINA_HOST out, and plan with --host torchserve"
        raise DeployError(f"AWS's images have TorchServe, and no host {host}", fix)
    targets = invocations_per_minute(archives, bench) if bench else scale.calls_per_minute if scale else {}
    planned = scale.instance_type if scale else None
    instances = {archive.name: f"ml.{planned}" if planned else instance_of(archive) for archive in archives}
    startups = {archive.name: startup_of(archive) for archive in archives}
    with new_folder(output) as folder:
        endpoints = {}
        if has_image:
            deploy_image(project, archives, folder / "image", mounted=False, host=host)
        for name, archive in archives_by_name.items():
            startup_s = startups[archive.name]
            content = {"environment": {"MARINA_MODELS": archive.name, "MARINA_STARTUP_S": str(startup_s)}}
            endpoints[name] = {
                **(content if has_image else _model_data(archive, folder, functions)),
                "instance_type": instances[archive.name],
                "startup_s": startup_s,
                "hosts": archive.hosting.sagemaker_hosts,
                "instances": scale.least_instances if scale else INSTANCES,
                "max_instances": scale.max_instances if scale else 4,
                "invocations_per_minute": targets.get(archive.name),
            }
        write_json(folder / "endpoints.json", endpoints)
        values = {
            "has_image": has_image,
            "image": archives[0].hosting.image,
            "hosts": archives[0].hosting.sagemaker_hosts,
            "pins": {} if has_image else common_pins(archives, added_packages),
            "names": list(archives_by_name),
            "startup_s": max(startups.values()),
        }
        left_out = ("code/", "Dockerfile") if has_image else ("code/",)
        render(FILES, folder, values, include=lambda name: not name.startswith(left_out))


def _model_data(archive: Archive, folder: Path, functions: bool) -> dict[str, Any]:
    """Write the model.tar.gz of an archive; what endpoints.json says of it."""
    path = folder / archive.name / "model.tar.gz"
    path.parent.mkdir()
    write_model_data(archive, FILES / "code" / "inference.py" if functions else None, path)
    return {
        "model_data": str(path.relative_to(folder)),
        "sha256": sha256_of(path),
        "image": archive.hosting.image,
    }


def instance_of(archive: Archive) -> str:
    """The instance type of an endpoint: on NeuronCores, the first of the family with those of all core groups.

    Raises:
        DeployError: no type has as many.
    """
    cores = sum(archive.groups)
    types = instance_types(archive, cores)
    if instance_types(archive) and not types:
        raise DeployError(
            f"{archive.name} has core groups for {cores} NeuronCores, and no instance of SageMaker has as many",
            "set fewer or smaller core_groups, and pack it again",
        )
    return f"ml.{next(iter(types))}" if types else archive.hosting.instance


def startup_of(archive: Archive) -> int:
    """The maximum number of seconds until a container of an endpoint answers.

    Raises:
        DeployError: SageMaker does not wait that long.
    """
    startup_s = max(STARTUP_S, int(archive.config["startupTimeout"]))
    if startup_s > MAX_STARTUP_S:
        raise DeployError(
            f"SageMaker waits at most {MAX_STARTUP_S} s for a container to start, and serving.startup_timeout_s of "
            f"{archive.name} is {startup_s}",
            "set a lower one, and pack it again",
        )
    return startup_s


def invocations_per_minute(archives: Sequence[Archive], bench: Path) -> dict[str, int]:
    """The target of autoscaling for each model: invocations a minute of one instance, with room for peaks.

    Raises:
        DeployError: the result has no rate of one of the models.
    """
    rates: dict[str, float] = {}
    for entry in read_result(bench).entries:
        model = entry.configuration.model
        for measurement in entry.rounds:
            if model and measurement.seconds:
                rates[model] = max(rates.get(model, 0.0), measurement.requests / measurement.seconds)
    missing = [archive.name for archive in archives if not rates.get(archive.name)]
    if missing:
        raise DeployError(f"{bench} has no rate of {missing[0]}", f"measure it: marina bench run {missing[0]}")
    return {archive.name: max(1, int(rates[archive.name] * SAFETY_FACTOR * MINUTE_S)) for archive in archives}
