"""The archives to deploy."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from handlers.worker.errors import WorkerError
from marina.archive.describe import Archive, describe_archive
from marina.bench.report.pricing import InstanceType, read_instances
from marina.errors import DeployError, ServerError
from marina.project import Project
from marina.server.archives import find_archives

DNS_NAME = 40  # characters: the limit of KubeRay and SageMaker, less what they and the templates append
# https://github.com/opencontainers/distribution-spec/blob/main/spec.md, with the registry in front
IMAGE = re.compile(
    r"(?P<repository>(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?/)?"
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
NO_STRINGS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")  # of YAML 1.1


def read_archives(project: Project, names: Sequence[str]) -> list[Archive]:
    """The archives with these names in the model store, verified.

    Raises:
        DeployError: one is missing, damaged, or not of this release.
    """
    archives = []
    try:
        paths = find_archives(project, list(dict.fromkeys(names)))
    except ServerError as error:
        raise DeployError(error.cause, error.fix) from None
    for path in paths:
        try:
            archives.append(describe_archive(path))
        except (WorkerError, KeyError, ValueError, TypeError) as error:
            raise DeployError(f"{path} cannot be deployed: {error}", f"marina archive {path.stem}") from None
    return archives


def stack_of(archives: Sequence[Archive], stacks: Collection[str], target: str) -> str:
    """The stack of all archives: "cpu", "inf1" or "inf2".

    Args:
        archives: they must share it, as one image, pod or machine serves them.
        stacks: the stacks that the target can serve.
        target: its name, for the message.

    Raises:
        DeployError: they have several, or the target cannot serve it.
    """
    archive_by_stack = {archive.stack: archive for archive in archives}
    if len(archive_by_stack) > 1:
        stacks_text = " and ".join(f"{archive.name} is for {stack}" for stack, archive in archive_by_stack.items())
        raise DeployError(f"{stacks_text}: they cannot share a machine", "deploy them one by one")
    (stack, archive) = archive_by_stack.popitem()
    if stack not in stacks:
        raise DeployError(f"{target} cannot serve {archive.name}: its engine {archive.engine} needs {stack}")
    return stack


def names_of(archives: Sequence[Archive]) -> dict[str, Archive]:
    """The archives by their names on targets; DeployError if two would have the same."""
    archives_by_name: dict[str, Archive] = {}
    for archive in archives:
        other = archives_by_name.setdefault(dns_name(archive.name), archive)
        if other is not archive:
            message = f"{other.name} and {archive.name} would both be called {dns_name(archive.name)}"
            raise DeployError(message, "deploy them into folders of their own")
    return archives_by_name


def joint_name(archives: Sequence[Archive], requested_name: str | None) -> str:
    """The name of the service for all archives: the requested one, or one that is made of their names.

    Raises:
        DeployError: the requested one is not a name for a target.
    """
    if requested_name and dns_name(requested_name) != requested_name:
        raise DeployError(f"--name {requested_name} is not a name for targets", f"write {dns_name(requested_name)}")
    return requested_name or dns_name("-".join(archive.name for archive in archives))


def instance_types(archive: Archive, cores: int = 0) -> dict[str, InstanceType]:
    """The types of AWS's instances that have the cores that an archive is for; none if any will do.

    Args:
        archive: the archive.
        cores: the least number of NeuronCores that they have.
    """
    return {
        name: instance
        for name, (instance, _) in read_instances(Path()).items()
        if name.partition(".")[0] in archive.hosting.families and instance.cores >= cores
    }


def type_names(archive: Archive) -> list[str]:
    """The names of the instance types that an archive is for, also of those without a price; none if any will do."""
    return [*instance_types(archive)] or [*archive.hosting.types]


class ImageReference(NamedTuple):
    """The repository of an image, and its tag or its digest ("" for none); at least one of them is given."""

    repository: str
    tag: str
    digest: str

    def __str__(self) -> str:
        tag, digest = self.tag and f":{self.tag}", self.digest and f"@{self.digest}"
        return f"{self.repository}{tag}{digest}"


def image_of(image: str) -> ImageReference:
    """The parts of a reference to an image, by the grammar of the OCI distribution specification.

    Raises:
        DeployError: it is not a reference, or names neither a tag nor a digest.
    """
    match = IMAGE.fullmatch(image)
    if not match:
        raise DeployError(f"--image {image} is not a reference to an image", "write REPOSITORY:TAG in lower case")
    repository, tag, digest = match["repository"], match["tag"] or "", match["digest"] or ""
    if not (tag or digest):
        raise DeployError(f"--image {image} names no tag", "write REPOSITORY:TAG, or REPOSITORY@sha256:DIGEST")
    return ImageReference(repository, tag, digest)


def dns_name(name: str) -> str:
    """A name as Kubernetes, SageMaker and ECS take it: lower-case letters, digits and '-', beginning with a letter.

    A name that YAML does not read as a string gets a letter in front too.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not plain[:1].isalpha() or plain in NO_STRINGS:
        plain = f"m-{plain}"
    if len(plain) > DNS_NAME:
        plain = f"{plain[: DNS_NAME - 9].rstrip('-')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return plain
