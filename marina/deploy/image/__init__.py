"""`marina deploy image`: the folder that an image for containers is built from."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import marina
from handlers.worker.engines.packages import installed
from handlers.worker.engines.releases import minor
from marina.archive.describe import Archive
from marina.deploy.folder import new_folder, render
from marina.deploy.image.base import BASES, Base
from marina.deploy.image.lock import with_checksums, with_dependencies
from marina.deploy.needs import default_host
from marina.deploy.source import stack_of
from marina.engines import engine_of
from marina.errors import DeployError
from marina.project import Project
from marina.server.hosts.table import HOSTS
from marina.server.hosts.torchserve.memory import with_java_memory

FILES = Path(__file__).parent / "files"
# packages that `marina serve` imports and workers do not
SERVER_PACKAGES = ("psutil", "pydantic", "pyyaml", "requests", "rich", "typer")
# packages with dependencies that serving does not import: Pillow, and the client of a model hub
WITHOUT_DEPENDENCIES = ("tokenizers", "torchserve")
# packages without which workers write no spans
SPAN_PACKAGES = ("opentelemetry-exporter-otlp-proto-http",)
TORCHSERVE_RELEASE = "0.12.0"
LIFETIME = "token_expiration_min=5256000"  # ten years: nginx knows one token only
NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.pyc", "bundled")


def deploy_image(
    project: Project, archives: Sequence[Archive], output: Path, mounted: bool, host: str | None = None
) -> bool:
    """Write the folder: a Dockerfile, locked requirements, Marina's own code, the configuration, and the archives.

    Args:
        project: the project whose configuration the image gets.
        archives: archives of one stack.
        output: the folder to write, which must not exist.
        mounted: whether the archives are mounted at /srv/marina/archives later, and are not in the image.
        host: what carries the workers; by default that of the stack.

    Returns:
        Whether requirements.txt has the sha256 of each file that may be installed: see `with_checksums`.

    Raises:
        DeployError: the archives need different images or another release of the SDK, or `output` exists.
    """
    stack = stack_of(archives, BASES, "an image")
    host = host or default_host(stack)
    _check_framework(archives, BASES[stack])
    torch = any(archive.needs_torch for archive in archives)
    with new_folder(output) as folder:
        # the Neuron SDK pins protobuf, so gRPC is there only if it was installed beside it
        grpc = [name for name in HOSTS[host].grpc if stack == "cpu" or installed(name)]
        java = HOSTS[host].java
        spans = [name for name in SPAN_PACKAGES if installed(name)]
        pins = requirements(archives, [*HOSTS[host].packages, *grpc, *spans]) | (
            {"torchserve": TORCHSERVE_RELEASE} if java else {}
        )
        locked = with_dependencies(pins, BASES[stack].python, WITHOUT_DEPENDENCIES)
        checksums = with_checksums(locked, BASES[stack].python)
        lines = checksums or "".join(f"{name}=={pin}\n" for name, pin in locked.items())
        (folder / "requirements.txt").write_text(lines, encoding="utf-8")
        values = {
            "base": BASES[stack],
            "stack": stack,
            "checksums": bool(checksums),
            "host": host,
            "java": java,
            "torch": torch_pins(archives) if torch else {},
            "names": [archive.name for archive in archives],
            "versions": [archive.version for archive in archives],
            "mounted": mounted,
        }
        left_out = {
            "requirements-torch.txt": not torch,
            # in place of PyTorch, for TorchServe's worker
            "torch.py": torch or not java,
        }
        render(FILES, folder, values, include=lambda name: not left_out.get(name))
        shutil.copytree(Path(marina.__file__).parent, folder / "marina", ignore=NOT_COPIED)
        shutil.copytree(_handlers(), folder / "marina" / "bundled" / "handlers", ignore=NOT_COPIED)
        _configure(project, folder / "project", host)
        for archive in archives:
            if not mounted:
                shutil.copy(archive.path, folder / "project" / "archives")
    return bool(checksums)


def _check_framework(archives: Sequence[Archive], base: Base) -> None:
    """Refuse archives of another release of the SDK than the base's; DeployError names the version."""
    for archive in archives:
        package = engine_of(archive.engine).packages[0]
        compiled = archive.artifacts[0].versions.get(package, "")
        if base.framework and compiled and minor(compiled) != minor(base.framework):
            raise DeployError(
                f"{archive.name} was compiled with {package} {compiled}, and the image has the runtime for "
                f"{minor(base.framework)}",
                f"compile it again with make setup STACK={archive.stack}, or deploy it where its SDK is",
            )


def requirements(archives: Sequence[Archive], packages: Sequence[str] = ()) -> dict[str, str]:
    """The packages that serve archives, and others, with versions.

    Raises:
        DeployError: the archives were compiled with different versions of a package, or one is not installed here.
    """
    pins = common_pins(archives, Archive.pins)
    for name in (*SERVER_PACKAGES, *packages):
        try:
            pins.setdefault(name, version(name))
        except PackageNotFoundError:
            raise DeployError(f"{name} is not installed here", f"pip install {name}") from None
    return dict(sorted(pins.items()))


def common_pins(archives: Sequence[Archive], pins_of: Callable[[Archive], Mapping[str, str]]) -> dict[str, str]:
    """The packages of all archives, of which `pins_of` says those of one, with versions.

    Raises:
        DeployError: the archives were compiled with different versions of a package.
    """
    pins: dict[str, str] = {}
    for archive in archives:
        for name, pin in pins_of(archive).items():
            if pins.setdefault(name, pin) != pin:
                raise DeployError(
                    f"{archive.name} was compiled with {name} {pin}, and {archives[0].name} with {pins[name]}",
                    "compile them with the same versions, or make an image for each",
                )
    return pins


def torch_pins(archives: Sequence[Archive]) -> Mapping[str, str]:
    """PyTorch and the packages of the Neuron SDK, as the archives were compiled with them."""
    recorded = {name: pin for archive in archives for name, pin in archive.artifacts[0].versions.items()}
    return {
        name: pin for name, pin in recorded.items() if name == "torch" or name.startswith(("torch-neuron", "neuron"))
    }


def _handlers() -> Path:
    import handlers

    return Path(str(handlers.__file__)).parent


def _configure(project: Project, target: Path, host: str) -> None:
    """Write the folder that `marina serve` takes for its project."""
    for name in ("models", "archives", "deploy"):
        (target / name).mkdir(parents=True)
    text = project.config.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.partition("=")[0].strip() != LIFETIME.partition("=")[0]]
    configured = [*with_java_memory(lines), LIFETIME, ""]
    (target / "config.properties").write_text("\n".join(configured), encoding="utf-8")
    for name in ("log4j2.xml", "metrics.yaml") if HOSTS[host].java else ():
        shutil.copy(project.root / "deploy" / name, target / "deploy")
