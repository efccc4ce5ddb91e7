"""Packs several artifacts into one archive, which stores files that they have in common once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from handlers.worker.archive.artifact import ARTIFACT_FILE, GOLDEN_FILE, Artifact, read_artifact
from handlers.worker.archive.contents import BUNDLE_FILE
from handlers.worker.placement.groups import parse_core_groups
from marina.archive.pack import Packed, Parts, files_of, write_archive
from marina.engines import engine_of
from marina.engines.values import PIPELINE
from marina.errors import CompileError
from marina.spec import Spec
from marina.spec.bundle import Bundle

HANDLER = "bundle.py"
UNSHARED_FILES = (ARTIFACT_FILE, GOLDEN_FILE)  # always in the member's own folder


def pack_bundle(bundle: Bundle, members: Sequence[tuple[Spec, Path]], model_store: Path) -> Packed:
    """Write `model_store/<name>.mar` atomically; the members are given with the folders of their artifacts.

    Raises:
        CompileError: the graphs do not fit into the memory of the device together.
    """
    artifacts = [read_artifact(folder) for _, folder in members]
    check_pipelines(bundle, artifacts)
    check_device_memory(bundle, members[0][0], artifacts)
    shared_files = find_shared_files(artifacts)
    document = {"name": bundle.name, "engine": members[0][0].engine, "members": shared_files}
    document |= {"chain": list(bundle.chain)} if bundle.chain else {}
    files: dict[str, Path | bytes] = {BUNDLE_FILE: json.dumps(document, indent=1).encode()}
    for artifact in artifacts:
        for path in files_of(artifact.folder):
            name = str(path.relative_to(artifact.folder))
            if name not in shared_files[artifact.name]:
                files[f"{artifact.name}/{name}"] = path
    parts = Parts(bundle, bundle.serving, [spec for spec, _ in members], HANDLER, files)
    return write_archive(parts, model_store, artifacts[0].folder.parent.parent / bundle.name)


def find_shared_files(artifacts: Sequence[Artifact]) -> dict[str, dict[str, str]]:
    """The files of each artifact that an earlier artifact has too: by artifact and name, the path from its folder."""
    first_paths: dict[str, str] = {}
    shared_files: dict[str, dict[str, str]] = {}
    for artifact in artifacts:
        shared_files[artifact.name] = {}
        for name, entry in artifact.files.items():
            path = f"{artifact.name}/{name}"
            first_path = first_paths.setdefault(str(entry["sha256"]), path)
            if first_path != path and name not in UNSHARED_FILES:
                shared_files[artifact.name][name] = f"../{first_path}"
    return shared_files


def check_pipelines(bundle: Bundle, artifacts: Sequence[Artifact]) -> None:
    """Refuse graphs that span more cores than a group of the bundle has; CompileError names the first."""
    group_cores = _smallest_group(bundle)
    for artifact in artifacts:
        spanned_cores = int(artifact.compiler.get("pipeline_cores", 1))
        if spanned_cores > group_cores:
            raise CompileError(
                f"{bundle.name}: the graphs of {artifact.name} are pipelines over {spanned_cores} cores, and the "
                f"bundle's core_groups have {group_cores}",
                f"give the bundle larger groups, or set neuron.pipeline_cores of {artifact.name}",
            )


def check_device_memory(bundle: Bundle, spec: Spec, artifacts: Sequence[Artifact]) -> None:
    """Refuse graphs that need more memory than the cores of a worker have; CompileError adds them up.

    The size of a graph's files stands for its memory: on Inf1 the embeddings in them stay on the host, while the
    runtime takes memory of its own.

    Args:
        bundle: the bundle.
        spec: the spec of one of its models.
        artifacts: the artifacts of all its models.
    """
    compiler = artifacts[0].compiler
    memory = engine_of(spec.engine).memory_on(compiler.get("target", ""))
    if memory is None:
        return
    cores = _smallest_group(bundle) if spec.mode == PIPELINE else 1
    sizes = {artifact.name: _graph_bytes(artifact) for artifact in artifacts}
    physical = memory.physical if memory.physical == 1 else compiler.get("logical_nc_config", memory.physical)
    needed_bytes, available_bytes = sum(sizes.values()), cores * memory.bytes_a_core / memory.physical * physical
    if needed_bytes > available_bytes:
        sizes_text = ", ".join(f"{name} {size / 1e9:.2f} GB" for name, size in sizes.items())
        raise CompileError(
            f"{bundle.name}: its graphs need about {needed_bytes / 1e9:.2f} GB of device memory ({sizes_text}), and a "
            f"worker has {available_bytes / 1e9:.0f} GB: {cores} core{'s' * (cores > 1)} of {memory.device}",
            "compile fewer or smaller shapes, or make two bundles",
        )


def _smallest_group(bundle: Bundle) -> int:
    return min(parse_core_groups(bundle.core_groups)) if bundle.core_groups else 1


def _graph_bytes(artifact: Artifact) -> int:
    file_names = {name for graph in artifact.graphs for name in (graph.graph, graph.weights) if name}
    return sum(int(artifact.files[name]["bytes"]) for name in file_names)
