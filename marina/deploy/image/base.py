"""The base images, by stack."""

from __future__ import annotations

from typing import NamedTuple


class Base(NamedTuple):
    """A base image.

    Attributes:
        image: its name; another can be given with `--build-arg BASE=...`, if it has the same packages.
        python: the Python that its Debian packages have.
        neuron_packages: Debian packages of AWS's repository that the runtime needs.
        neuron_release: the release of Ubuntu in that repository.
    """

    image: str
    python: str
    neuron_packages: tuple[str, ...] = ()
    neuron_release: str = ""


BASES = {
    "cpu": Base("docker.io/library/debian:12-slim", "3.11"),
    "inf1": Base("docker.io/library/ubuntu:22.04", "3.10"),
    "inf2": Base(
        "docker.io/library/ubuntu:24.04", "3.12", ("aws-neuronx-runtime-lib", "aws-neuronx-collectives"), "noble"
    ),
}
