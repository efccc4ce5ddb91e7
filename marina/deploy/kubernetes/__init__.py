"""`marina deploy kubernetes`: manifests for an image of `marina deploy image`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from marina.archive.describe import Archive
from marina.deploy.folder import new_folder, render
from marina.deploy.kubernetes.stored import stored_archives
from marina.deploy.needs import DRAIN_S, default_host, host_of, needs_of
from marina.deploy.scale import Replicas, read_scale
from marina.deploy.source import dns_name, image_of, joint_name, stack_of, type_names
from marina.errors import DeployError

FILES = Path(__file__).parent / "files"
TEMPLATE = Path(__file__).parents[2] / "template"  # files that new projects get too
STACKS = ("cpu", "inf1", "inf2")
OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")  # RFC 1123
PROPAGATION_S = 10  # until every node knows that a pod gets no new connections


def deploy_kubernetes(
    archives: Sequence[Archive],
    output: Path,
    image: str | None,
    cpus: int,
    resource_name: str | None = None,
    plan: Path | None = None,
    secret: str | None = None,
    host: str | None = None,
    bucket: str | None = None,
    service_account: str | None = None,
) -> None:
    """Write manifests: base/, the overlay of the archives' stack, and optional/.

    Args:
        archives: the archives in the image, or in `bucket`; they share a pod.
        output: the folder to write, which must not exist.
        image: the image with its tag or digest; by default the name and the version of the first archive.
        cpus: CPU cores of a pod on the stack cpu, if the archives have no core groups.
        resource_name: the name of all resources; by default the archive's, or those of several joined.
        plan: a plan.json of `marina plan --write`, for the cores of a pod, the replicas, and when to add one.
        secret: the name of a Secret of the cluster that holds the token; by default the overlay makes one.
        host: of the image; by default the plan's, or else that of the stack.
        bucket: a folder of S3 from which each pod loads the archives when it starts, as s3://BUCKET/FOLDER; by default
            they are in the image.
        service_account: the ServiceAccount of pods that load from `bucket`; by default the namespace's.

    Raises:
        DeployError: the archives are of different stacks, `output` exists, `plan` is not for these archives, or a name
            is not valid.
    """
    stack = stack_of(archives, STACKS, "Kubernetes")
    scale = read_scale(plan, archives, host) if plan else None
    host = host_of(host, scale, default_host(stack))
    name = joint_name(archives, resource_name)
    for option, kind, value in (
        ("--secret", "Secret", secret),
        ("--service-account", "ServiceAccount", service_account),
    ):
        if value and not OBJECT_NAME.fullmatch(value):
            raise DeployError(
                f"{option} {value} is not the name of a {kind}", "write lower-case letters, digits, - and ."
            )
    if service_account and not bucket:
        raise DeployError("--service-account is for pods that load archives", "give --archives s3://BUCKET/FOLDER too")
    reference = image_of(image or f"{name}:{archives[0].version}")
    needs = needs_of(archives, stack, cpus, scale, host)
    size = sum(archive.size for archive in archives)
    # the store, the unpacked archives, archives for rollbacks, and logs; and what is loaded from S3
    disk, archives_disk = 1e9 + 4 * size, 1e8 + size
    values = {
        "name": name,
        "canary": dns_name(f"{name}-canary"),
        "secret": secret,
        "stored": stored_archives(archives, bucket) if bucket else [],
        "service_account": service_account,
        "stack": stack,
        "host": host,
        "image": str(reference),
        "reference": reference,
        "models": " ".join(archive.name for archive in archives),
        "cpus": needs.cpus,
        "planned_cores": scale.cores if scale and stack == "cpu" else 0,
        "neuron_cores": needs.neuron_cores,
        "instance_types": type_names(archives[0]),
        "memory_request": mebibytes(needs.memory_request),
        "memory_limit": mebibytes(needs.memory_limit),
        "disk": mebibytes(disk),
        "archives_disk": mebibytes(archives_disk),
        "pod_disk": mebibytes(disk + (archives_disk if bucket else 0)),
        "startup_s": needs.startup_s,
        "propagation_s": PROPAGATION_S,
        "drain_s": DRAIN_S,
        "grace_s": PROPAGATION_S + needs.stop_s,
        "replicas": scale.replicas if scale else Replicas(),
        "alerts": (TEMPLATE / "alerts.yaml").read_text(encoding="utf-8").rstrip("\n"),
        "objectives": objectives_of(f"{name}-metrics"),
        "dashboard": (TEMPLATE / "dashboard.json").read_text(encoding="utf-8").rstrip("\n"),
        "queue_us": int(1000 * min(archive.serving["deadline_ms"] for archive in archives) / 100),
    }

    def include(file: str) -> bool:
        return f"/{stack}/" in file if file.startswith("overlays/") else bool(bucket) or file != "base/archives.sha256"

    with new_folder(output) as folder:
        render(FILES, folder, values, include)


def objectives_of(service: str) -> str:
    """The rules of the objectives, for the metrics of a Service in place of a job of Prometheus."""
    text = (TEMPLATE / "slo.yaml").read_text(encoding="utf-8").rstrip("\n")
    return text.replace('job="torchserve"', f'service="{service}"').replace("job: torchserve", f"service: {service}")


def mebibytes(count: float) -> str:
    """Bytes as Kubernetes writes them."""
    return f"{int(count / (1 << 20)) + 1}Mi"
