"""The versions of the Neuron SDK stand in one place: files that no program writes must agree with it."""

from __future__ import annotations

import re
from typing import get_args, get_type_hints

import pytest
from packaging.requirements import Requirement

from handlers.worker.engines.packages import check_installed
from handlers.worker.engines.releases import (
    INF1,
    INF2,
    INF2_SAGEMAKER,
    SAGEMAKER_DRIVER,
    SAGEMAKER_HOSTS,
    TARGETS,
    Release,
    minor,
    release_of,
    runtime_packages,
)
from handlers.worker.errors import ArtifactError
from marina.engines.neuronx import PLATFORMS, NeuronxOptions, platform_of
from tests.conftest import ROOT

RELEASES = {
    "inf1": (INF1, "torch-neuron", "neuron-cc"),
    "inf2": (INF2, "torch-neuronx", "neuronx-cc"),
    "inf2-sagemaker": (INF2_SAGEMAKER, "torch-neuronx", "neuronx-cc"),
}
ON_INSTANCES = ("inf1", "inf2")  # where users install the driver themselves


@pytest.mark.parametrize("stack", RELEASES)
def test_the_requirements_of_a_stack_are_its_release(stack: str) -> None:
    release, framework, compiler = RELEASES[stack]
    lines = (ROOT / "requirements" / f"{stack}.txt").read_text().splitlines()
    pins = {
        requirement.name: str(requirement.specifier)
        for requirement in (Requirement(line.partition("#")[0]) for line in lines if re.match(r"[a-z]", line))
    }
    expected = {framework: release.framework, compiler: release.compiler, "torch": release.torch}
    assert {name: pins[name] for name in expected} == {name: f"=={pin}" for name, pin in expected.items()}


@pytest.mark.parametrize("stack", ON_INSTANCES)
def test_the_guide_installs_the_release(stack: str) -> None:
    release: Release = RELEASES[stack][0]
    page = (ROOT / "docs" / "guides" / "neuron.md").read_text()
    for package in (f"aws-neuronx-dkms={minor(release.driver)}", *runtime_packages(release)):
        assert f"'{package}'" in page
    named = set(re.findall(r"'(aws-neuronx-(?:dkms|runtime-lib|collectives)=[^']*)'", page))
    releases = [RELEASES[name][0] for name in ON_INSTANCES]
    known = {f"aws-neuronx-dkms={minor(release.driver)}" for release in releases}
    assert named == known | {package for release in releases for package in runtime_packages(release)}


def test_the_guide_lists_the_releases() -> None:
    page = (ROOT / "docs" / "guides" / "neuron.md").read_text()
    for release, *_ in RELEASES.values():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| {release.sdk} |"))
        cells = [cell.strip() for cell in row.split("|")]
        versions = (release.framework, release.compiler, release.driver, release.runtime or "its own")
        assert tuple(cells[3:7]) == versions


def test_the_images_are_of_the_release() -> None:
    for release, *_ in RELEASES.values():
        assert f"sdk{release.sdk}-" in release.image
        assert f"py{release.python.replace('.', '')}-" in release.image


def test_a_package_that_became_another_product_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from handlers.worker.engines import neuronx, packages

    monkeypatch.setattr(packages, "installed", lambda _: "2.13.3")
    with pytest.raises(ArtifactError, match=r"torch-neuronx 2\.13\.3 is another product.*below 2\.10"):
        check_installed(neuronx.SDK)
    monkeypatch.setattr(packages, "installed", lambda _: INF2.framework)
    check_installed(neuronx.SDK)


def test_sagemaker_gets_the_release_that_its_hosts_run() -> None:
    from marina.engines import neuronx

    hosting = neuronx.ENGINE.hosting_for({"torch-neuronx": INF2_SAGEMAKER.framework}, {})
    assert (hosting.image, hosting.sagemaker_hosts) == (INF2_SAGEMAKER.image, SAGEMAKER_HOSTS)
    assert not hosting.not_on_sagemaker
    assert INF2_SAGEMAKER.driver == SAGEMAKER_DRIVER
    newer = neuronx.ENGINE.hosting_for({"torch-neuronx": INF2.framework}, {})
    assert "needs a driver from 2.27 on" in newer.not_on_sagemaker
    page = (ROOT / "docs" / "deploy" / "sagemaker.md").read_text()
    assert INF2_SAGEMAKER.image in page
    assert SAGEMAKER_HOSTS in page


def test_a_release_is_known_by_the_version_of_its_wheel_with_a_build() -> None:
    for release in (INF2, INF2_SAGEMAKER):
        assert release_of(f"{release.framework}+0e870634") is release_of(release.framework) is release
    assert release_of(f"{INF2.framework}1") is None


def test_the_targets_of_a_spec_are_those_of_the_compiler() -> None:
    hints = get_type_hints(NeuronxOptions)
    assert get_args(hints["target"]) == TARGETS
    assert set(map(platform_of, TARGETS)) <= PLATFORMS.keys()
