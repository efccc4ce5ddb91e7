"""A container's variables and its proxy; images are in tests/end_to_end/test_image.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from marina.archive.describe import Archive
from marina.container.__main__ import body_bytes, offer_archives
from marina.container.probes import Health
from marina.container.proxy import configuration, execution_parameters
from marina.container.settings import ContainerSettings, port_of, read_settings
from marina.errors import DeployError, ServerError
from marina.project import Project
from marina.server.state import Ports
from marina.server.torchserve.management import ModelStatus

TOKEN = "0123456789abcdef"


def test_settings_from_the_environment(tmp_path: Path) -> None:
    found = read_settings({"MARINA_TOKEN": TOKEN, "MARINA_MODELS": "a b", "MARINA_PORT": "9000"}, [])
    assert (found.port, found.grpc_port, found.tokens, found.models) == (9000, 7070, (TOKEN,), ("a", "b"))
    assert ContainerSettings.from_json(found.as_json()) == found
    (tmp_path / "token").write_text(f"{TOKEN}\n{TOKEN[::-1]}\n")
    assert read_settings({"MARINA_TOKEN_FILE": str(tmp_path / "token")}, []).tokens == (TOKEN, TOKEN[::-1])
    assert read_settings({"MARINA_OPEN": "true"}, []).tokens == ()
    # SageMaker authorizes callers itself, and names the port
    assert read_settings({"SAGEMAKER_BIND_TO_PORT": "8888", "MARINA_TOKEN": TOKEN}, ["serve"]).tokens == ()
    assert port_of({"SAGEMAKER_BIND_TO_PORT": "8888"}) == 8888


@pytest.mark.parametrize(
    ("variables", "arguments", "message"),
    [
        ({}, [], "there is no token"),
        ({"MARINA_TOKEN": "a b c d e f g h i j k"}, [], "the token must match"),
        ({"MARINA_TOKEN": f'{TOKEN}" 1; default 1; "'}, [], "the token must match"),
        ({"MARINA_OPEN": "yes"}, [], "MARINA_OPEN=yes"),
        ({"MARINA_OPEN": "true", "MARINA_PORT": "0"}, [], "MARINA_PORT=0"),
        ({"MARINA_OPEN": "true", "MARINA_DRAIN_S": "-1"}, [], "MARINA_DRAIN_S=-1"),
        ({"MARINA_OPEN": "true"}, ["train"], "unknown arguments train"),
    ],
)
def test_what_has_no_sense(variables: dict[str, str], arguments: list[str], message: str) -> None:
    with pytest.raises(DeployError, match=message):
        read_settings(variables, arguments)


def test_the_configuration_of_nginx(archives: list[Archive], tmp_path: Path) -> None:
    settings = read_settings({"MARINA_TOKEN": TOKEN}, [])
    text = configuration(settings, Ports(1, 2, 3, 4, 5), 6, "theirs", archives, tmp_path, 9_000_000)
    assert "@" not in re.sub("@(unauthorized|unknown|too_large|busy)", "", text)
    assert f'"~^Bearer {TOKEN}$" 1;' in text
    two = read_settings({"MARINA_TOKEN": f"{TOKEN} {TOKEN[::-1]}"}, [])
    rotated = configuration(two, Ports(), 6, "theirs", archives, tmp_path, 9_000_000)
    assert all(f'"~^Bearer {token}$" 1;' in rotated for token in (TOKEN, TOKEN[::-1]))
    assert "client_max_body_size 9000000;" in text
    assert "limit_conn requests 64;" in text  # the fewest
    assert 'Authorization "Bearer theirs"' in text
    opened = configuration(read_settings({}, ["serve"]), Ports(), 6, "theirs", archives[:1], tmp_path, 9_000_000)
    assert 'default "intents";' in opened


def test_no_larger_body_is_taken_than_a_model_takes(archives: list[Archive], tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.config.write_text("max_request_size=6553500\n")
    assert body_bytes(project, archives) == 500_000
    project.config.write_text("max_request_size=100\n")
    assert body_bytes(project, archives) == 100
    settings = read_settings({"MARINA_TOKEN": TOKEN}, [])
    assert "limit_conn requests 512;" in configuration(settings, Ports(), 6, "theirs", archives, tmp_path, 500_000)


def test_batch_transform_gets_lines_only_if_models_take_them(archives: list[Archive]) -> None:
    assert execution_parameters(archives)["BatchStrategy"] == "SINGLE_RECORD"
    members = {"intents": {"max_body_bytes": 6_000_000}}
    large = archives[0]._replace(config={**archives[0].config, "handler": {"members": members}})
    assert execution_parameters([large]) == {
        "MaxConcurrentTransforms": 1,
        "BatchStrategy": "MULTI_RECORD",
        "MaxPayloadInMB": 5,
    }


def test_archives_are_offered_by_links(archives: list[Archive], tmp_path: Path) -> None:
    project = Project(tmp_path)
    folder = archives[0].path.parent
    offer_archives(project, folder, ["intents"])
    offer_archives(project, folder, [])  # as when the container starts again
    assert (project.model_store / "intents.mar").resolve() == archives[0].path
    with pytest.raises(DeployError, match="has no archive other"):
        offer_archives(project, folder, ["other"])
    with pytest.raises(DeployError, match="has no archive"):
        offer_archives(project, tmp_path / "empty", [])


class Managed:
    """Workers by model: -1 if TorchServe does not answer."""

    def __init__(self, **workers: int) -> None:
        self.workers = workers

    def status(self, name: str) -> ModelStatus:
        if self.workers[name] < 0:
            raise ServerError("no answer")
        return ModelStatus(name, "1", 2, self.workers[name], 8, 0, [])


def test_it_is_ready_while_every_model_has_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    managed = Managed(a=2, b=1)
    health = Health(managed, ["a", "b"])  # type: ignore[arg-type]
    assert health.missing() == []
    managed.workers = {"a": 0, "b": -1}
    assert health.missing() == []  # not asked again so soon
    now[0] += 1
    assert health.missing() == ["a", "b"]
    assert not health.dead()
    now[0] += 400
    assert health.dead()
    managed.workers = {"a": 1, "b": 1}
    now[0] += 1
    assert not health.dead()
