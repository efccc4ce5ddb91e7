"""The releases of the Neuron SDK that Marina supports. Whatever names a version of the SDK takes it from here.

Sources: AWS's manifest of releases (src/helperscripts/n2-manifest.json of aws-neuron-sdk) for versions; the release
notes of the runtime (release-notes/components/runtime.rst) for the versions that do not fit each other; AWS's
announcement of 2026-03-12 for the last driver for Inf1; the tags of AWS's deep-learning containers for images.
"""

from __future__ import annotations

import sys
from typing import NamedTuple


class Release(NamedTuple):
    """The versions of one release that belong together.

    Attributes:
        sdk: the release.
        framework: of torch-neuron or torch-neuronx.
        framework_below: from this version on, the package is another product; "" if there is none.
        compiler: of neuron-cc or neuronx-cc.
        torch: of PyTorch.
        python: the Python of `ubuntu`, and of the packages.
        ubuntu: AWS's platform of the release, and its code name in AWS's repository of packages.
        driver: of aws-neuronx-dkms.
        drivers: all versions of the driver that serve the instances, as a specifier.
        runtime: of aws-neuronx-runtime-lib and aws-neuronx-collectives; "" if the framework brings its own.
        image: AWS's image for inference, without its registry.
    """

    sdk: str
    framework: str
    framework_below: str
    compiler: str
    torch: str
    python: str
    ubuntu: tuple[str, str]
    driver: str
    drivers: str
    runtime: str
    image: str


INF1 = Release(
    sdk="2.20.2",
    framework="1.13.1.2.11.13.0",
    framework_below="",
    compiler="1.24.0.0",
    torch="1.13.1",
    python="3.10",
    ubuntu=("22.04", "jammy"),
    driver="2.24",
    drivers="<2.25",
    runtime="",
    image="pytorch-inference-neuron:1.13.1-neuron-py310-sdk2.20.2-ubuntu20.04",
)
INF2 = Release(
    sdk="2.31.1",
    framework="2.9.0.2.15.32035",
    # from 2.13 on the package is TorchNeuron, which has no torch_neuronx.trace, and is for Trn2 and Trn3
    framework_below="2.10",
    compiler="2.26.6360.0",
    torch="2.9.1",
    python="3.12",
    ubuntu=("24.04", "noble"),
    driver="2.29",
    drivers="",
    runtime="2.33",
    image="pytorch-inference-neuronx:2.9.0-neuronx-py312-sdk2.31.1-ubuntu24.04",
)
# for SageMaker, whose hosts have an older driver: AWS's newest image for inference of a release with that driver
INF2_SAGEMAKER = Release(
    sdk="2.21.0",
    framework="2.5.1.2.4.0",
    framework_below="2.10",
    compiler="2.16.345.0",
    torch="2.5.1",
    python="3.10",
    ubuntu=("22.04", "jammy"),
    driver="2.19",
    drivers="",
    runtime="2.23",
    image="pytorch-inference-neuronx:2.5.1-neuronx-py310-sdk2.21.0-ubuntu22.04",
)
# the image of SageMaker's hosts for Inferentia2 and Trainium, and its driver: "InferenceAmiVersion" in SageMaker's API
SAGEMAKER_HOSTS, SAGEMAKER_DRIVER = "al2-ami-sagemaker-inference-neuron-2", "2.19"
TARGETS = ("inf2", "trn1", "trn1n", "trn2")  # of neuronx-cc, by the reference of its command line
# AWS names TorchNeuron for Trn3, which has no torch_neuronx.trace
NO_TRN3 = f"neuronx-cc compiles for {', '.join(TARGETS[:-1])} and {TARGETS[-1]} only: use one of these instances"
# the release whose packages this Python can install
INSTALLABLE = INF2 if sys.version_info >= (3, 11) else INF2_SAGEMAKER


def release_of(framework: str) -> Release | None:
    """The release for Inf2 that a version of torch-neuronx is of; None if Marina knows none.

    Workers take graphs of exactly the version that they have, so no other version counts. Wheels may have the build
    behind it: 2.9.0.2.15.32035+0e870634.
    """
    version = framework.partition("+")[0]
    return next((release for release in (INF2, INF2_SAGEMAKER) if release.framework == version), None)


class Pair(NamedTuple):
    """A driver and a runtime that do not fit each other: `drivers` with `runtimes`, both as specifiers."""

    drivers: str
    runtimes: str
    reason: str


# "known issues" of Neuron Runtime Library 2.32 and of Neuron Driver 2.29 in the release notes
UNFIT = (
    Pair("<2.27", ">=2.32", "a runtime from 2.32 on needs a driver from 2.27 on"),
    Pair(">=2.29", "<2.33", "a driver from 2.29 on needs a runtime from 2.33 on"),
)


def minor(version: str) -> str:
    """A version up to its second number, with all that follows: 2.9.0.2.15 gives 2.9.*"""
    return ".".join(version.split(".")[:2]) + ".*"


def runtime_packages(release: Release) -> list[str]:
    """The packages of Debian that run graphs, with versions; none if the framework brings its own runtime."""
    names = ("aws-neuronx-runtime-lib", "aws-neuronx-collectives") if release.runtime else ()
    return [f"{name}={minor(release.runtime)}" for name in names]
