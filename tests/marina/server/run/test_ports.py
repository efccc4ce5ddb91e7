import socket
from pathlib import Path

import pytest

from marina.errors import ServerError
from marina.server.run.ports import check_ports, configured_ports, free_ports
from marina.server.run.state import Ports
from tests.conftest import ROOT


def test_a_port_in_use_is_named_with_the_option_to_change_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            ServerError, match=rf"port {port} for grpc inference .* with --grpc-inference-port, or shift"
        ):
            check_ports(Ports(grpc_inference=port, inference=0, management=1025, metrics=1026, grpc_management=1027))


def test_all_ports_in_use_are_named_together() -> None:
    with socket.socket() as first, socket.socket() as second:
        ports = []
        for taken in (first, second):
            taken.bind(("127.0.0.1", 0))
            ports.append(taken.getsockname()[1])
        with pytest.raises(ServerError) as error:
            check_ports(Ports(ports[0], ports[1], 0, 70_000, 1027))
        assert error.value.cause == (
            f"port {ports[0]} for inference, port {ports[1]} for management, port 70000 for grpc inference cannot be "
            "used: Address already in use, no port is higher than 65535"
        )
        assert "--port, --management-port, --grpc-inference-port, or shift all" in error.value.fix


def test_ports_come_from_the_configuration(tmp_path: Path) -> None:
    assert configured_ports(ROOT / "config.properties") == Ports()
    config = tmp_path / "config.properties"
    config.write_text("# a comment\ninference_address = http://0.0.0.0:9080\ngrpc_management_port=9071\n")
    assert configured_ports(config) == Ports(inference=9080, grpc_management=9071)
    assert configured_ports(config).shifted(10) == Ports(9090, 8091, 8092, 7080, 9081)
    config.write_text("grpc_management_port=many\n")
    with pytest.raises(ServerError, match="a port is not a number"):
        configured_ports(config)


def test_a_port_given_twice_is_refused() -> None:
    with pytest.raises(ServerError, match="port 1025 is given for both inference and metrics"):
        check_ports(Ports(inference=1025, metrics=1025))


def test_a_port_that_is_not_used_is_nobodys() -> None:
    ports = Ports(inference=free_ports(1)[0], metrics=1025, grpc_management=1025)
    check_ports(ports, ("inference", "grpc_management"))
    with pytest.raises(ServerError, match="port 1025 is given for both metrics and grpc management"):
        check_ports(ports, ("metrics", "grpc_management"))
