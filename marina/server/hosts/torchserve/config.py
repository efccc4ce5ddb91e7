"""The configuration of one run of TorchServe: the project's `config.properties` with the run's own ports."""

from __future__ import annotations

from pathlib import Path

from marina.server.run.state import Ports


def write_config(base: Path, ports: Ports, target: Path) -> None:
    """Write the project's configuration with the given ports, for use from any working directory."""
    values = {
        "inference_address": f"http://127.0.0.1:{ports.inference}",
        "management_address": f"http://127.0.0.1:{ports.management}",
        "metrics_address": f"http://127.0.0.1:{ports.metrics}",
        "grpc_inference_port": str(ports.grpc_inference),
        "grpc_management_port": str(ports.grpc_management),
    }
    lines = []
    for line in base.read_text().splitlines():
        key, _, value = (part.strip() for part in line.partition("="))
        if key == "metrics_config":
            values[key] = str((base.parent / value).absolute())
        lines.append(f"{key}={values.pop(key)}" if key in values else line)
    lines += [f"{key}={value}" for key, value in values.items()]
    target.write_text("\n".join(lines) + "\n")
