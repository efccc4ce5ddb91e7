"""Every folder that is written says what to do with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from marina.archive.describe import Archive
from marina.deploy.ecs import deploy_ecs
from marina.deploy.image import deploy_image
from marina.deploy.kubernetes import deploy_kubernetes
from marina.deploy.ray import deploy_ray
from marina.deploy.sagemaker import deploy_sagemaker
from marina.project import Project
from tests.conftest import ROOT


@pytest.mark.parametrize("target", ["image", "kubernetes", "ecs", "ray", "sagemaker"])
def test_a_page_has_commands_for_these_models(archives: list[Archive], tmp_path: Path, target: str) -> None:
    output = tmp_path / target
    write: dict[str, Callable[[], object]] = {
        "image": lambda: deploy_image(Project(ROOT), archives, output, mounted=False),
        "kubernetes": lambda: deploy_kubernetes(archives, output, "registry.example.com/models:3", 2),
        "ecs": lambda: deploy_ecs(archives, output, 2),
        "ray": lambda: deploy_ray(archives, output, 1, 4),
        "sagemaker": lambda: deploy_sagemaker(Project(ROOT), archives, output, functions=False, bench=None),
    }
    write[target]()
    page = (output / "README.md").read_text()
    assert page.startswith("# ")
    assert archives[0].name in page
    assert "{{" not in page
    assert "```sh\n" in page
    if target == "kubernetes":
        assert "registry.example.com/models:3" in page
        assert "overlays/cpu/token" in page
        assert "By the plan" not in page


def test_the_page_says_how_an_image_is_named(archives: list[Archive], tmp_path: Path) -> None:
    deploy_kubernetes(archives, tmp_path / "out", f"registry.example.com/models@sha256:{'a' * 64}", 2)
    page = (tmp_path / "out" / "README.md").read_text()
    assert "change `digest` in `overlays/cpu/kustomization.yaml`" in page
