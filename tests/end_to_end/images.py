"""Images for containers, built and run for real: by buildah, on a base that mmdebstrap makes of Debian's packages.

The containers run as the images say: as their user, on a read-only file system, with nothing of this process's
environment. They share this machine's network, so that ports are given to them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

TOOLS = ("buildah", "mmdebstrap", "unshare")
needs_buildah = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in TOOLS) or os.geteuid() != 0,
    reason=f"{', '.join(TOOLS)} or the rights to use them are missing",
)
TIMESTAMP = 1_700_000_000  # seconds since 1970, of every file of an image
# what Debian's own image leaves out
SLIM = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale", "info", "lintian")]
# mounts what a runtime gives to containers, and runs the rest of the command line
MOUNTS = """
set -e
root=$1; shift
for shown in "$@"; do
  case "$shown" in
    --) break ;;
    *) mkdir -p "$root${shown%%=*}" ;;
  esac
done
mount --bind "$root" "$root"
mount -o remount,ro,bind "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
while [ "$1" != -- ]; do
  case "$1" in
    *=*) mount --bind "${1#*=}" "$root${1%%=*}" ;;
    *) mount -t tmpfs -o "mode=1777" tmpfs "$root$1" ;;
  esac
  shift
done
shift
exec "$@"
"""


class Running(subprocess.Popen[bytes]):
    """A container, whose first process has the number 1 in it, and gets the signals."""

    def send_signal(self, sig: int) -> None:
        for child in psutil.Process(self.pid).children() if self.poll() is None else []:
            child.send_signal(sig)


class Images:
    """A store of images in a folder of its own.

    Args:
        folder: for the store.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._machine = folder / "machine"
        self._machine.mkdir(parents=True)
        self._mounts = self._pip_settings()

    def buildah(self, *arguments: str, **options: Any) -> str:
        """Run buildah; returns what it prints."""
        store = ["--root", str(self._folder / "root"), "--runroot", str(self._folder / "run")]
        environment = {**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
        done = subprocess.run(
            ["buildah", *store, *arguments], env=environment, capture_output=True, text=True, check=False, **options
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return str(done.stdout).strip()

    def make_base(self, name: str, release: str = "trixie") -> None:
        """Make an image like Debian's own, in which pip finds packages as it does here."""
        context = self._folder / "base"
        context.mkdir()
        command = ["mmdebstrap", "--quiet", "--variant=minbase", *SLIM, release, str(context / "base.tar")]
        subprocess.run(command, check=True, capture_output=True)
        (context / "Dockerfile").write_text(
            "FROM scratch\nADD base.tar /\nENV PIP_CERT=/machine/ca.crt PIP_CONFIG_FILE=/machine/pip.conf\n"
        )
        self.buildah("build", "--quiet", "--tag", name, str(context))
        (context / "base.tar").unlink()

    def build(self, context: Path, name: str, base: str) -> None:
        """Build the image of a folder's Dockerfile on a base, with one time for all of its files."""
        self.buildah(
            *("build", "--quiet", "--no-cache", "--format", "docker", "--timestamp", str(TIMESTAMP), *self._mounts),
            *("--build-arg", f"BASE={base}", "--tag", name, str(context)),
        )

    def layers(self, name: str) -> list[str]:
        """The sha256 of each layer of an image."""
        return list(json.loads(self.buildah("inspect", "--type", "image", name))["Docker"]["rootfs"]["diff_ids"])

    def configuration(self, name: str) -> dict[str, Any]:
        """What an image says about itself: Entrypoint, Env, User, WorkingDir, ExposedPorts, Labels, Healthcheck."""
        inspected = json.loads(self.buildah("inspect", "--type", "image", name))
        return dict(inspected["Docker"]["config"])

    def size(self, name: str) -> int:
        """Bytes of an image."""
        return sum(
            path.lstat().st_size for path in self.unpacked(name).rglob("*") if path.is_file() and not path.is_symlink()
        )

    def unpacked(self, name: str) -> Path:
        """The folder of an image's files."""
        return Path(self.buildah("mount", self.buildah("from", "--pull-never", name)))

    @contextmanager
    def running(
        self,
        name: str,
        variables: Mapping[str, str],
        log: Path,
        writable: Sequence[str],
        files: Mapping[str, Path] | None = None,
        command: Sequence[str] | None = None,
        arguments: Sequence[str] = (),
        user: str | None = None,
        cgroup: Path | None = None,
    ) -> Iterator[Running]:
        """Run a container, and end it in the end.

        Args:
            name: of the image.
            variables: for its environment, besides those of the image.
            log: the file for its output.
            writable: folders that get an empty file system; all others are read-only.
            files: folders of this machine by those that show them in the container.
            command, arguments: in place of the image's entry point, and for it.
            user: in place of the image's.
            cgroup: the folder of a cgroup that the container joins.
        """
        image = self.configuration(name)
        environment = [*image["Env"], "HOME=/tmp", *(f"{key}={value}" for key, value in variables.items())]
        root = str(self.unpacked(name))
        mounts = [*writable, *(f"{inside}={outside}" for inside, outside in (files or {}).items())]
        who = user or image["User"]
        start = ["chroot", f"--userspec={who}:{who}", root, "env", "-i", "-C", image["WorkingDir"], *environment]
        program = [*(command or image["Entrypoint"]), *arguments]
        join = ["bash", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(cgroup)] if cgroup else []
        with log.open("wb") as output:
            process = Running(
                [
                    *join,
                    "unshare",
                    "--mount",
                    "--pid",
                    "--fork",
                    "--kill-child",
                    "bash",
                    "-c",
                    MOUNTS,
                    "bash",
                    root,
                    *mounts,
                    "--",
                    *start,
                    *program,
                ],
                stdout=output,
                stderr=output,
                env={"PATH": os.environ["PATH"]},
            )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()

    def _pip_settings(self) -> list[str]:
        """Copy the settings of pip here; returns the mounts that show them, and the folders that they name."""
        listed = subprocess.run(
            [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
        ).stdout
        settings = dict(line.split("=", 1) for line in listed.splitlines() if "=" in line)
        known = {name.split(".", 1)[1]: value.strip("'") for name, value in settings.items()}
        shutil.copy(known.pop("cert", "/etc/ssl/certs/ca-certificates.crt"), self._machine / "ca.crt")
        lines = [f"{name} = {value.replace(chr(92) + 'n', ' ')}" for name, value in known.items()]
        (self._machine / "pip.conf").write_text("\n".join(["[global]", *lines, ""]))
        words = [word for value in known.values() for word in value.replace("\\n", " ").split()]
        # an index in a folder names files beside that folder; constraints are a file
        paths = [Path(urlsplit(word).path).parent if word.startswith("file:") else Path(word) for word in words]
        folders = {
            str(path if path.is_dir() else path.parent) for path in paths if path.is_absolute() and path.exists()
        }
        shown = {str(self._machine): "/machine"} | {folder: folder for folder in folders}
        return [part for path, inside in shown.items() for part in ("--volume", f"{path}:{inside}:ro")]
