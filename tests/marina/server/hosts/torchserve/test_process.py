from pathlib import Path

from marina.server.hosts.torchserve.process import write_config
from marina.server.run.state import Ports
from tests.conftest import ROOT


def properties(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_only_ports_differ_from_the_projects_configuration(tmp_path: Path) -> None:
    base = ROOT / "config.properties"
    write_config(base, Ports(), tmp_path / "same")
    own = {**properties(base), "metrics_config": str(ROOT / "deploy" / "metrics.yaml")}
    assert properties(tmp_path / "same") == own
    write_config(base, Ports(1, 2, 3, 4, 5), tmp_path / "other")
    changed = {key for key, value in properties(tmp_path / "other").items() if value != own[key]}
    assert changed == {
        *("inference_address", "management_address", "metrics_address"),
        *("grpc_inference_port", "grpc_management_port"),
    }


def test_the_configuration_is_safe_by_default() -> None:
    config = properties(ROOT / "config.properties")
    for key in ("inference_address", "management_address", "metrics_address"):
        assert config[key].startswith("http://127.0.0.1:")
    assert config["grpc_inference_address"] == config["grpc_management_address"] == "127.0.0.1"
    assert config["disable_token_authorization"] == "false"
