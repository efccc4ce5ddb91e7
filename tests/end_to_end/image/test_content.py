"""What is in the image."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from handlers.worker.archive.artifact import sha256_of
from marina.project import Project
from tests.end_to_end.image.containers import BASE, HOST, IMAGE
from tests.end_to_end.images import Images, needs_buildah

pytestmark = [pytest.mark.long, needs_buildah]
LIMIT = 1.5e9


def test_what_is_in_the_image(images: Images, context: Path) -> None:
    image = images.configuration(IMAGE)
    assert image["User"] == "10001"
    assert image["Labels"]["com.amazonaws.sagemaker.capabilities.accept-bind-to-port"] == "true"
    assert image["Labels"]["io.marina.models"] == "intents topics"
    assert set(image["ExposedPorts"]) == {"8080/tcp", "7070/tcp", "8082/tcp"}
    assert images.size(IMAGE) < LIMIT
    root = images.unpacked(IMAGE)
    for tool in ("pip", "pip3", "gcc", "ld", "javac", "jlink", "curl"):
        assert not [*root.glob(f"usr/bin/{tool}"), *root.glob(f"opt/*/bin/{tool}")], tool
    assert (root / "opt" / "java").exists() == (HOST == "torchserve")
    hadolint = Path(sysconfig.get_path("scripts")) / "hadolint"
    done = subprocess.run([hadolint, context / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_list_of_what_is_in_the_image(images: Images, context: Path, project: Project) -> None:
    root = images.unpacked(IMAGE)
    document = json.loads((root / "opt" / "sbom.json").read_text())
    listed = {component["bom-ref"]: component for component in document["components"]}
    assert list(listed) == sorted(listed)
    assert listed["system"]["version"] == "13"
    status = subprocess.run(
        ["dpkg-query", f"--admindir={root}/var/lib/dpkg", "--show", "--showformat", "${Package} ${Version}\\n"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    versions = {component["name"]: component["version"] for component in listed.values() if "version" in component}
    assert {name: versions.get(name) for name in ("libc6", "python3")} == {
        name: version for name, version in map(str.split, status.splitlines()) if name in ("libc6", "python3")
    }
    # all packages of Python, and no others, are those whose checksums pip has compared
    lock = (context / "requirements.txt").read_text()
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+) \\$", lock, re.MULTILINE))
    python = [component for reference, component in listed.items() if reference.startswith("pkg:pypi/")]
    assert {re.sub(r"[-_.]+", "-", one["name"]).lower(): one["version"] for one in python} == pinned
    assert lock.count("--hash=sha256:") > len(pinned)
    archive = project.model_store / "intents.mar"
    assert listed["archive:intents"]["hashes"][0]["content"] == sha256_of(archive)
    java = {reference for reference in listed if reference.startswith(("pkg:maven/", "pkg:generic/openjdk"))}
    assert bool(java) == (HOST == "torchserve")
    if java:
        assert "pkg:maven/io.netty/netty-codec-http2@4.1.53.Final" in java


def test_the_same_folder_gives_the_same_layers(images: Images, context: Path, tmp_path: Path) -> None:
    other = shutil.copytree(context, tmp_path / "other")
    for path in other.rglob("*"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    images.build(other, f"{IMAGE}-again", BASE)
    assert images.layers(f"{IMAGE}-again") == images.layers(IMAGE)


def test_a_machine_of_another_kind_is_refused(context: Path, tmp_path: Path) -> None:
    """The Dockerfile's first command, on a machine whose dpkg says arm64."""
    lines = (context / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    command = next(line for line in lines if "print-architecture" in line).removeprefix("RUN ")
    for architecture, code in (("amd64", 0), ("arm64", 1)):
        dpkg = tmp_path / "dpkg"
        dpkg.write_text(f"#!/bin/sh\necho {architecture}\n")
        dpkg.chmod(0o755)
        path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(["sh", "-c", command], env=path, capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert bool(code) == ("linux/amd64" in done.stderr)
