"""The base images, by stack."""

from __future__ import annotations

from typing import NamedTuple

from handlers.worker.engines.releases import INF1, INF2, Release, runtime_packages


class Base(NamedTuple):
    """A base image.

    Attributes:
        image: its name; another can be given with `--build-arg BASE=...`, if it has the same packages.
        python: the Python that its Debian packages have.
        java: its Debian package of Java.
        neuron_packages: Debian packages of AWS's repository that the runtime needs, with versions.
        neuron_release: the release of Ubuntu in that repository.
        framework: the version of the engine's package that its Python and runtime are for; "" for any.
    """

    image: str
    python: str
    java: str
    neuron_packages: tuple[str, ...] = ()
    neuron_release: str = ""
    framework: str = ""


def _of_release(release: Release) -> Base:
    number, name = release.ubuntu
    packages = tuple(runtime_packages(release))
    java = "openjdk-17-jdk-headless"
    return Base(f"docker.io/library/ubuntu:{number}", release.python, java, packages, name, release.framework)


BASES = {
    "cpu": Base("docker.io/library/debian:13-slim", "3.13", "openjdk-21-jdk-headless"),
    "inf1": _of_release(INF1),
    "inf2": _of_release(INF2),
}
