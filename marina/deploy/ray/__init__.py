"""`marina deploy ray`: archives on Ray Serve, on a cluster, with KubeRay, and in AWS's image for SageMaker."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import handlers
from marina.archive.describe import Archive
from marina.deploy.folder import new_folder, render
from marina.deploy.image import NOT_COPIED, requirements, torch_pins
from marina.deploy.kubernetes import mebibytes
from marina.deploy.needs import LIMIT_FACTOR
from marina.deploy.scale import read_scale
from marina.deploy.source import joint_name, stack_of, type_names

RAY_BYTES = 800_000_000  # Ray's own processes on a machine
FILES = Path(__file__).parent / "files"
STACKS = ("cpu", "inf2")  # Ray knows NeuronCores of Inf2 and Trn1
RAY = "2.60.0"


def deploy_ray(
    archives: Sequence[Archive],
    output: Path,
    cpus: int,
    replicas: int,
    service_name: str | None = None,
    plan: Path | None = None,
) -> None:
    """Write the application, and config.yaml for each way to start it.

    Args:
        archives: each becomes a deployment.
        output: the folder to write, which must not exist.
        cpus: CPU cores of a replica on the stack cpu, if an archive has no core groups.
        replicas: the maximum number of replicas of each that autoscaling starts.
        service_name: the name of the RayService; by default the archive's, or those of several joined.
        plan: a plan.json of `marina plan --write`, for the replicas and when to add one.

    Raises:
        DeployError: the archives are of different stacks, or of one that Ray does not know; `output` exists, or `plan`
            is not for these archives.
    """
    stack = stack_of(archives, STACKS, "Ray Serve")
    scale = read_scale(plan, archives) if plan else None
    workers = sum(len(archive.groups) or 1 for archive in archives)
    target = max(1, round(scale.under_way / workers)) if scale else None
    models = [
        {
            "name": archive.name,
            "cores": archive.groups[0] if archive.groups else cpus if stack == "cpu" else 1,
            "replicas": (len(archive.groups) or 1) * (scale.least_instances if scale else 1),
            "max_replicas": (len(archive.groups) or 1) * scale.max_instances if scale else replicas,
            "target": target or archive.config["batchSize"],
        }
        for archive in archives
    ]
    cores = sum(
        int(model["cores"]) * (len(archive.groups) or 1) for model, archive in zip(models, archives, strict=True)
    )
    # the packages that workers import; the host reads the archive's YAML too
    needed_packages = {"pyyaml", *(name for archive in archives for name in archive.pins())}
    pins = {name: pin for name, pin in requirements(archives).items() if name in needed_packages}
    values = {
        "name": joint_name(archives, service_name),
        "models": models,
        "stack": stack,
        "ray": RAY,
        "pins": pins,
        "torch": torch_pins(archives) if any(archive.needs_torch for archive in archives) else {},
        "max_replicas": scale.max_instances if scale else replicas,
        "cpus": cores if stack == "cpu" else 1 + workers,
        "neuron_cores": 0 if stack == "cpu" else cores,
        "instance_types": type_names(archives[0]),
        "memory": mebibytes(LIMIT_FACTOR * (RAY_BYTES + sum(each.memory(torchserve=False) for each in archives))),
    }
    with new_folder(output) as folder:
        render(FILES, folder, values)
        shutil.copytree(Path(str(handlers.__file__)).parent, folder / "app" / "handlers", ignore=NOT_COPIED)
        (folder / "app" / "archives").mkdir()
        for archive in archives:
            shutil.copy(archive.path, folder / "app" / "archives")
