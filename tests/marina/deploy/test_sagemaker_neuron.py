"""Inferentia 2 on SageMaker: only archives of the SDK that SageMaker's hosts run, on hosts that run it."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest

from handlers.worker.engines.releases import INF2, INF2_SAGEMAKER, SAGEMAKER_HOSTS
from marina.archive.describe import Archive
from marina.deploy.image import deploy_image
from marina.deploy.sagemaker import deploy_sagemaker, instance_of
from marina.errors import DeployError
from marina.project import Project
from tests.conftest import ROOT
from tests.marina.deploy.conftest import cfn_lint, load
from tests.marina.deploy.test_kubernetes import on

PROJECT = Project(ROOT)


def compiled_with(archive: Archive, framework: str) -> Archive:
    """The archive as if it were compiled for Inf2 with a version of torch-neuronx."""
    fields = {"engine": "neuronx", "versions": {"torch-neuronx": framework}}
    artifacts = tuple(type(artifact)(**{**vars(artifact), **fields}) for artifact in archive.artifacts)
    return archive._replace(artifacts=artifacts)


def test_the_hosts_of_the_endpoint_run_the_sdk(archives: list[Archive], tmp_path: Path) -> None:
    output = tmp_path / "out"
    archive = compiled_with(archives[0], INF2_SAGEMAKER.framework)
    deploy_sagemaker(PROJECT, [archive], output, functions=False, bench=None)
    (endpoint,) = json.loads((output / "endpoints.json").read_text()).values()
    assert (endpoint["image"], endpoint["hosts"]) == (INF2_SAGEMAKER.image, SAGEMAKER_HOSTS)
    assert f"InferenceAmiVersion: {SAGEMAKER_HOSTS}" in (output / "endpoint.yaml").read_text()
    linted = cfn_lint(output / "endpoint.yaml")
    assert linted.returncode == 0, linted.stdout
    options = Namespace(serverless_mb=None)
    variant = load(output / "deploy.py").capacity(options, endpoint, "ml.inf2.xlarge", 2)
    assert variant["InferenceAmiVersion"] == SAGEMAKER_HOSTS


def test_every_endpoint_has_an_instance_with_its_cores(archives: list[Archive], tmp_path: Path) -> None:
    groups = ("1,1", "1,1,1,1")
    made = [
        compiled_with(on(archive, "neuronx", cores), INF2_SAGEMAKER.framework)
        for archive, cores in zip(archives, groups, strict=True)
    ]
    deploy_sagemaker(PROJECT, made, tmp_path / "out", functions=False, bench=None)
    endpoints = json.loads((tmp_path / "out" / "endpoints.json").read_text()).values()
    assert [endpoint["instance_type"] for endpoint in endpoints] == ["ml.inf2.xlarge", "ml.inf2.24xlarge"]
    assert instance_of(on(archives[0], "neuron", ",".join("1" * 16))) == "ml.inf1.6xlarge"
    assert instance_of(on(archives[0], "neuronx", "32")) == "ml.trn1.32xlarge"
    assert instance_of(archives[0]) == "ml.c7i.xlarge"
    with pytest.raises(DeployError, match=r"intents has core groups for 33 NeuronCores, and no instance"):
        instance_of(on(archives[0], "neuronx", "33"))


@pytest.mark.parametrize(
    ("framework", "reason"),
    [
        (INF2.framework, "needs a driver from 2.27 on"),
        ("2.5.1.2.6.0", "is known to have 2.5.1.2.6.0"),
    ],
)
def test_other_versions_are_refused(archives: list[Archive], tmp_path: Path, framework: str, reason: str) -> None:
    with pytest.raises(DeployError, match=reason):
        deploy_sagemaker(
            PROJECT, [compiled_with(archives[0], framework)], tmp_path / "out", functions=False, bench=None
        )
    assert not (tmp_path / "out").exists()


def test_the_image_is_for_one_release(archives: list[Archive], tmp_path: Path) -> None:
    archive = compiled_with(archives[0], INF2_SAGEMAKER.framework)
    with pytest.raises(DeployError, match=r"and the image has the runtime for 2\.9\.\*"):
        deploy_image(PROJECT, [archive], tmp_path / "out", mounted=False)
