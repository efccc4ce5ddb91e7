"""Prints what is in the image that it runs in, as CycloneDX 1.6: Debian's packages, Python's, Java's, and archives.

Nothing in the list depends on the time or the machine: the same image has the same list.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zipfile import ZipFile

VENV, JAVA, ARCHIVES = Path("/opt/venv"), Path("/opt/java"), Path("/srv/marina/archives")
DPKG, OS_RELEASE = Path("/var/lib/dpkg/status"), Path("/etc/os-release")
# TorchServe's jar names the versions of Netty only; the others are those of its frontend/gradle.properties
JAR_LIBRARIES = {
    "com.google.code.gson/gson": "2.9.0",
    "com.lmax/disruptor": "3.4.4",
    "commons-cli/commons-cli": "1.3.1",
    "io.grpc/grpc-netty-shaded": "1.50.0",
    "io.prometheus/simpleclient": "0.9.0",
    "org.apache.logging.log4j/log4j-core": "2.17.1",
    "org.codehaus.groovy/groovy-all": "3.0.9",
    "org.yaml/snakeyaml": "2.1",
}
NETTY_VERSION = re.compile(r"^(netty-[a-z0-9-]+)\.version=(.+)$", re.MULTILINE)


def component(name: str, version: str, purl: str, **more: Any) -> dict[str, Any]:
    """An entry of the list."""
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, **more}


def debian(status: str, release: str) -> Iterator[dict[str, Any]]:
    """The packages that dpkg has installed."""
    system = dict(line.split("=", 1) for line in release.splitlines() if "=" in line)
    name, version = system["ID"].strip('"'), system.get("VERSION_ID", "").strip('"')
    yield {"type": "operating-system", "bom-ref": "system", "name": name, "version": version}
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^([A-Z][A-Za-z-]*): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            package, number = fields["Package"], fields["Version"]
            source = str(fields.get("Source") or package).split(" ")[0]
            where = f"arch={fields['Architecture']}&distro={name}-{version}&upstream={source}"
            yield component(package, number, f"pkg:deb/{name}/{quote(package)}@{quote(number)}?{where}")


def python(packages: Path) -> Iterator[dict[str, Any]]:
    """The packages in a folder of Python."""
    for package in distributions(path=[str(packages)]):
        name, number = package.metadata["Name"], package.version
        normal = re.sub(r"[-_.]+", "-", name).lower()
        yield component(name, number, f"pkg:pypi/{normal}@{number}", **_license(package))


def _license(package: Distribution) -> dict[str, Any]:
    if "License-Expression" not in package.metadata:
        return {}
    return {"licenses": [{"expression": package.metadata["License-Expression"]}]}


def java(home: Path, packages: Path) -> Iterator[dict[str, Any]]:
    """Java's runtime, and the libraries in TorchServe's jar; nothing if they are not there."""
    if not home.exists():
        return
    release = dict(re.findall(r'^([A-Z_]+)="(.*)"$', (home / "release").read_text(encoding="utf-8"), re.MULTILINE))
    number = release["JAVA_VERSION"]
    yield component("openjdk", number, f"pkg:generic/openjdk@{number}", type="platform")
    with ZipFile(packages / "ts" / "frontend" / "model-server.jar") as jar:
        netty = jar.read("META-INF/io.netty.versions.properties").decode()
    found = {f"io.netty/{name}": number.strip() for name, number in NETTY_VERSION.findall(netty)}
    for name, number in (found | JAR_LIBRARIES).items():
        yield component(name.split("/")[1], number, f"pkg:maven/{name}@{number}", group=name.split("/")[0])


def archives(folder: Path) -> Iterator[dict[str, Any]]:
    """The archives, with the sha256 of each."""
    for path in sorted(folder.glob("*.mar")):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        yield {
            "type": "machine-learning-model",
            "bom-ref": f"archive:{path.stem}",
            "name": path.stem,
            "hashes": [{"alg": "SHA-256", "content": content}],
        }


def main() -> None:
    """Print the list."""
    (packages,) = VENV.glob("lib/python3*/site-packages")
    status, release = DPKG.read_text(encoding="utf-8"), OS_RELEASE.read_text(encoding="utf-8")
    listed = [*debian(status, release), *python(packages), *java(JAVA, packages), *archives(ARCHIVES)]
    components = {each["bom-ref"]: each for each in listed}
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "container", "bom-ref": "image", "name": "marina"}},
        "components": [components[key] for key in sorted(components)],
    }
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
