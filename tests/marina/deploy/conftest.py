"""Files that were written to be run elsewhere, and stubs of AWS's services."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

import botocore.session
import pytest
from botocore.stub import Stubber


@pytest.fixture(autouse=True)
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of images are written without the checksums of the package index, which takes seconds."""
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_NO_CACHE", "1")


BIN = Path(sysconfig.get_path("scripts"))


def cfn_lint(template: Path) -> subprocess.CompletedProcess[str]:
    """What cfn-lint says of a template of CloudFormation; its exit code is 0 if it finds nothing."""
    command = [BIN / "cfn-lint", "--regions", "us-east-1", "--non-zero-exit-code", "warning", "--", template]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


class Clients:
    """A session whose clients of these services are stubs, in which every call must be the next that was expected."""

    def __init__(self, session: Any, *services: str) -> None:
        self.session = session
        self.region_name = session.region_name
        core = botocore.session.get_session()
        self.made = {
            service: core.create_client(service, "eu-west-1", aws_access_key_id="test", aws_secret_access_key="test")
            for service in services
        }
        self.stubs = {service: Stubber(client) for service, client in self.made.items()}
        for stub in self.stubs.values():
            stub.activate()

    def client(self, service: str, **options: Any) -> Any:
        return self.made.get(service) or self.session.client(service, **options)

    def done(self) -> None:
        for stub in self.stubs.values():
            stub.assert_no_pending_responses()


def load(path: Path) -> ModuleType:
    """The module in a written file, which may import those beside it."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    for beside in path.parent.glob("*.py"):
        sys.modules.pop(beside.stem, None)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module
