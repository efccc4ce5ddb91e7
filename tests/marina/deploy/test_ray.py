"""The manifest for KubeRay, judged by the schemas of Kubernetes; tests/end_to_end/ray_serve runs the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from marina.archive.describe import Archive
from marina.deploy.ray import deploy_ray
from tests.marina.deploy.test_kubernetes import on


@pytest.mark.parametrize("engine", [None, "neuronx"])
def test_the_cluster_is_closed(archives: list[Archive], tmp_path: Path, engine: str | None) -> None:
    made = [on(archive, engine, "1,1") if engine else archive for archive in archives]
    deploy_ray(made, tmp_path / "out", cpus=1, replicas=4, service_name="bots")
    service, policy = yaml.safe_load_all((tmp_path / "out" / "rayservice.yaml").read_text())
    cluster = service["spec"]["rayClusterConfig"]
    assert cluster["authOptions"] == {"mode": "token"}
    kubernetes_validate.validate(policy, kubernetes_validate.latest_version(), strict=True)
    open_ports = {port["port"]: rule["from"] for rule in policy["spec"]["ingress"] for port in rule.get("ports", [])}
    assert [list(source) for source in open_ports[8265]] == [["namespaceSelector", "podSelector"]]
    (workers,) = cluster["workerGroupSpecs"]
    assert workers["minReplicas"] == 2 <= workers["maxReplicas"]
    for template in (cluster["headGroupSpec"]["template"], workers["template"]):
        pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ray"}, "spec": template["spec"]}
        kubernetes_validate.validate(pod, kubernetes_validate.latest_version(), strict=True)
        assert template["metadata"]["labels"].items() >= policy["spec"]["podSelector"]["matchLabels"].items()
        assert template["spec"]["securityContext"]["runAsNonRoot"]
    assert ("tolerations" in workers["template"]["spec"]) == ("affinity" in workers["template"]["spec"]) == bool(engine)
    applications = yaml.safe_load(service["spec"]["serveConfigV2"])["applications"]
    scaling = [deployment["autoscaling_config"] for app in applications for deployment in app.get("deployments", [])]
    assert all(limits["min_replicas"] >= 2 and limits["max_replicas"] >= limits["min_replicas"] for limits in scaling)
    alone = yaml.safe_load((tmp_path / "out" / "config.yaml").read_text())["applications"]
    assert alone[0]["deployments"][0]["autoscaling_config"]["min_replicas"] == (2 if engine else 1)
