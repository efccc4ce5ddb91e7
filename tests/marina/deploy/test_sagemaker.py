"""The endpoints, judged by AWS's own service models; the container itself is in tests/end_to_end/test_sagemaker.py."""

from __future__ import annotations

import json
import subprocess
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber
from moto import mock_aws

from marina.archive.describe import Archive
from marina.bench.load.measurement import Measurement
from marina.bench.report.results import Configuration, Entry, Result, write_result
from marina.deploy.sagemaker import deploy_sagemaker
from marina.errors import DeployError
from marina.project import Project
from tests.conftest import ROOT
from tests.marina.deploy.conftest import BIN, Clients, cfn_lint, load

PROJECT = Project(ROOT)
ROLE = "arn:aws:iam::123456789012:role/endpoints"


@pytest.fixture(scope="module")
def written(archives: list[Archive], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For AWS's image."""
    output = tmp_path_factory.mktemp("sagemaker") / "out"
    deploy_sagemaker(PROJECT, archives, output, functions=False, bench=None, aws_image=True)
    return output


@pytest.fixture(scope="module")
def with_image(archives: list[Archive], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For Marina's image."""
    output = tmp_path_factory.mktemp("sagemaker-image") / "out"
    deploy_sagemaker(PROJECT, archives, output, functions=False, bench=None)
    return output


@pytest.fixture(params=["written", "with_image"])
def folder(request: pytest.FixtureRequest) -> Path:
    """Each of both."""
    output: Path = request.getfixturevalue(request.param)
    return output


@pytest.fixture
def deploy(written: Path) -> ModuleType:
    return load(written / "deploy.py")


@pytest.fixture
def numbered(deploy: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models and configurations have a number in place of a hash."""
    monkeypatch.setattr(deploy, "short", lambda *_: "1")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """AWS, of which moto answers S3; every call to the others is checked by `expect`."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setattr("time.sleep", lambda _: None)  # of waiters
    with mock_aws():
        yield boto3.Session(region_name="eu-west-1")


def arguments(deploy: ModuleType, *more: str) -> Any:
    model = {"model_data": "m", "instances": 2}
    return deploy.parse(["create", "--bucket", "models", "--role", ROLE, *more], {"intents": model})


def expect_models(stub: Stubber, key: str) -> None:
    container = {
        "Image": "763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch-inference:2.6.0-cpu-py312-ubuntu22.04-sagemaker",
        "ModelDataUrl": f"s3://models/{key}",
    }
    model = {"ModelName": ANY, "ExecutionRoleArn": ROLE, "PrimaryContainer": container}
    stub.add_response("create_model", {"ModelArn": "arn:aws:sagemaker:eu-west-1:1:model/intents"}, model)
    answer = {"EndpointConfigArn": "arn:aws:sagemaker:eu-west-1:1:endpoint-config/intents"}
    stub.add_response("create_endpoint_config", answer, {"EndpointConfigName": ANY, "ProductionVariants": ANY})


def in_service() -> dict[str, Any]:
    return {
        "EndpointName": "intents",
        "EndpointArn": "arn:aws:sagemaker:eu-west-1:1:endpoint/intents",
        "EndpointConfigName": "intents-1",
        "EndpointStatus": "InService",
        "CreationTime": 0,
        "LastModifiedTime": 0,
    }


@pytest.mark.usefixtures("numbered")
def test_create_uploads_and_makes_an_endpoint_that_scales(written: Path, deploy: ModuleType, session: Any) -> None:
    session.client("s3").create_bucket(Bucket="models", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    model = json.loads((written / "endpoints.json").read_text())["intents"]
    key = f"marina/intents-{model['sha256'][:12]}/model.tar.gz"
    clients = Clients(session, "sagemaker", "application-autoscaling")
    stub = clients.stubs["sagemaker"]
    expect_models(stub, key)
    stub.add_response(
        "create_endpoint",
        {"EndpointArn": "arn:aws:sagemaker:eu-west-1:1:endpoint/intents"},
        {"EndpointName": "intents", "EndpointConfigName": ANY},
    )
    for _ in ("the waiter", "the check"):
        stub.add_response("describe_endpoint", in_service(), {"EndpointName": "intents"})
    scaling = clients.stubs["application-autoscaling"]
    where = {"ResourceId": "endpoint/intents/variant/AllTraffic", "ServiceNamespace": "sagemaker"}
    dimension = {"ScalableDimension": "sagemaker:variant:DesiredInstanceCount"}
    scaling.add_response("register_scalable_target", {}, {**where, **dimension, "MinCapacity": 2, "MaxCapacity": 6})
    policy = {"PolicyName": ANY, "PolicyType": "TargetTrackingScaling"}
    tracked = {"PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}}
    tracking = {"TargetTrackingScalingPolicyConfiguration": {**tracked, "TargetValue": 1200.0}}
    scaling.add_response(
        "put_scaling_policy",
        {"PolicyARN": "arn:aws:autoscaling:eu-west-1:1:p"},
        {**where, **dimension, **policy, **tracking},
    )
    options = arguments(deploy, "--instances", "2", "--max-instances", "6", "--invocations-per-minute", "1200")
    deploy.create(clients, options, "intents", model)
    clients.done()
    stored = session.client("s3").get_object(Bucket="models", Key=key)
    assert stored["Body"].read() == (written / model["model_data"]).read_bytes()


@pytest.mark.usefixtures("numbered")
@pytest.mark.parametrize(
    ("scaled", "more", "bounds"),
    [
        (False, (), None),
        (False, ("--instances", "6"), None),
        (True, (), None),
        (True, ("--instances", "6"), (6, 6)),
        (True, ("--max-instances", "9"), (2, 9)),
        (True, ("--instances", "3", "--max-instances", "3", "--invocations-per-minute", "1200"), (3, 3)),
    ],
)
def test_create_again_updates_the_endpoint(
    written: Path, deploy: ModuleType, session: Any, scaled: bool, more: tuple[str, ...], bounds: tuple[int, int] | None
) -> None:
    session.client("s3").create_bucket(Bucket="models", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    model = json.loads((written / "endpoints.json").read_text())["intents"]
    clients = Clients(session, "sagemaker", "application-autoscaling")
    stub = clients.stubs["sagemaker"]
    for call in ("create_model", "create_endpoint_config", "create_endpoint"):
        stub.add_client_error(call, "ValidationException", "Cannot create already existing thing")
    answer = {"EndpointArn": "arn:aws:sagemaker:eu-west-1:1:endpoint/intents"}
    where = {"ServiceNamespace": "sagemaker", "ResourceId": "endpoint/intents/variant/AllTraffic"}
    target = {
        **where,
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        "MinCapacity": 1,
        "MaxCapacity": 4,
        "RoleARN": ROLE,
        "CreationTime": 0,
    }
    scaling = clients.stubs["application-autoscaling"]
    scaling.add_response("describe_scalable_targets", {"ScalableTargets": [target] if scaled else []})
    if bounds:
        registered = {**where, "ScalableDimension": target["ScalableDimension"]}
        registered |= dict(zip(("MinCapacity", "MaxCapacity"), bounds, strict=True))
        scaling.add_response("register_scalable_target", {}, registered)
    if "--invocations-per-minute" in more:
        scaling.add_response("put_scaling_policy", {"PolicyARN": "arn:aws:autoscaling:eu-west-1:1:p"})
    stub.add_response("describe_endpoint", in_service(), {"EndpointName": "intents"})
    # what autoscaling has chosen stays, and what the command names is obeyed otherwise
    fields = {"EndpointName": "intents", "EndpointConfigName": ANY, "RetainAllVariantProperties": scaled}
    stub.add_response("update_endpoint", answer, fields)
    for _ in ("the waiter", "the check"):
        stub.add_response("describe_endpoint", in_service(), {"EndpointName": "intents"})
    deploy.create(clients, arguments(deploy, *more), "intents", model)
    clients.done()


@pytest.mark.usefixtures("numbered")
@pytest.mark.parametrize("statuses", [("Failed",), ("Creating", "Creating", "Failed", "Failed")])
def test_an_endpoint_that_failed_is_made_anew(
    written: Path, deploy: ModuleType, session: Any, statuses: tuple[str, ...]
) -> None:
    session.client("s3").create_bucket(Bucket="models", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    model = json.loads((written / "endpoints.json").read_text())["intents"]
    clients = Clients(session, "sagemaker", "application-autoscaling")
    stub, named = clients.stubs["sagemaker"], {"EndpointName": "intents"}
    for call in ("create_model", "create_endpoint_config", "create_endpoint"):
        stub.add_client_error(call, "ValidationException", "Cannot create already existing thing")
    for status in statuses:
        stub.add_response("describe_endpoint", {**in_service(), "EndpointStatus": status}, named)
    stub.add_response("delete_endpoint", {}, named)
    stub.add_client_error("describe_endpoint", "ValidationException", "Could not find endpoint")
    answer = {"EndpointArn": "arn:aws:sagemaker:eu-west-1:1:endpoint/intents"}
    stub.add_response("create_endpoint", answer, {**named, "EndpointConfigName": ANY})
    for _ in ("the waiter", "the check"):
        stub.add_response("describe_endpoint", in_service(), named)
    deploy.create(clients, arguments(deploy), "intents", model)
    clients.done()


PLACED = ("--subnets", "subnet-1", "subnet-2", "--security-groups", "sg-1", "--network-isolation")
VPC = {"Subnets": ["subnet-1", "subnet-2"], "SecurityGroupIds": ["sg-1"]}
INSTANCES = {
    "InstanceType": "ml.c7i.xlarge",
    "InitialInstanceCount": 2,
    "ContainerStartupHealthCheckTimeoutInSeconds": 600,
}
TAGS = {"Tags": [{"Key": "team", "Value": "search=1"}]}


@pytest.mark.usefixtures("numbered")
@pytest.mark.parametrize(
    ("options", "model_fields", "variant", "configuration", "tags"),
    [
        ((), {}, INSTANCES, {}, {}),
        (PLACED, {"VpcConfig": VPC, "EnableNetworkIsolation": True}, INSTANCES, {}, {}),
        (("--kms-key", "k", "--tag", "team=search=1"), {}, INSTANCES, {"KmsKeyId": "k"}, TAGS),
        (
            ("--async-output", "s3://models/answers"),
            {},
            INSTANCES,
            {"AsyncInferenceConfig": {"OutputConfig": {"S3OutputPath": "s3://models/answers"}}},
            {},
        ),
        (
            ("--serverless-mb", "3072"),
            {},
            {"ServerlessConfig": {"MemorySizeInMB": 3072, "MaxConcurrency": 20}},
            {},
            {},
        ),
    ],
)
def test_options_reach_aws(
    written: Path,
    deploy: ModuleType,
    session: Any,
    options: tuple[str, ...],
    model_fields: dict[str, Any],
    variant: dict[str, Any],
    configuration: dict[str, Any],
    tags: dict[str, Any],
) -> None:
    session.client("s3").create_bucket(Bucket="models", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    model = json.loads((written / "endpoints.json").read_text())["intents"] | {"instance_type": "ml.c7i.xlarge"}
    clients = Clients(session, "sagemaker", "application-autoscaling")
    stub = clients.stubs["sagemaker"]
    arn = "arn:aws:sagemaker:eu-west-1:1:"
    base = {"ModelName": "intents-1", "ExecutionRoleArn": ROLE, "PrimaryContainer": ANY}
    stub.add_response("create_model", {"ModelArn": f"{arn}model/intents"}, {**base, **model_fields, **tags})
    variants = [{"VariantName": "AllTraffic", "ModelName": "intents-1", **variant}]
    named = {"EndpointConfigName": "intents-1"}
    stub.add_response(
        "create_endpoint_config",
        {"EndpointConfigArn": f"{arn}endpoint-config/intents"},
        {**named, "ProductionVariants": variants, **configuration, **tags},
    )
    endpoint = {"EndpointName": "intents", **named}
    stub.add_response("create_endpoint", {"EndpointArn": f"{arn}endpoint/intents"}, {**endpoint, **tags})
    for _ in ("the waiter", "the check"):
        stub.add_response("describe_endpoint", in_service(), {"EndpointName": "intents"})
    deploy.create(clients, arguments(deploy, *options), "intents", model)
    clients.done()


def test_an_alarm_takes_an_update_back_after_its_first_instance(deploy: ModuleType, session: Any) -> None:
    options = arguments(deploy, "--alarm", "errors", "--alarm", "latency")
    rollout = deploy.rollout_of(options, "ml.c7i.large", 2)
    stub = Clients(session, "sagemaker").stubs["sagemaker"]
    fields = {"EndpointName": "intents", "EndpointConfigName": "intents-1", **rollout}
    # the service's own model refuses a field that it does not have
    stub.add_response("update_endpoint", {"EndpointArn": "arn:aws:sagemaker:eu-west-1:1:endpoint/intents"}, fields)
    stub.client.update_endpoint(**fields)
    assert rollout["DeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"][1] == {"AlarmName": "latency"}
    assert deploy.rollout_of(arguments(deploy), "ml.c7i.large", 2) == {}
    policy = deploy.rollout_of(options, "ml.c7i.large", 1)["DeploymentConfig"]["BlueGreenUpdatePolicy"]
    assert policy["TrafficRoutingConfiguration"]["Type"] == "ALL_AT_ONCE"
    with pytest.raises(SystemExit, match="takes no update back on Inf1"):
        deploy.rollout_of(options, "ml.inf1.xlarge", 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--instances", "4", "--max-instances", "3"), "--max-instances 3 is less than --instances 4"),
        (("--max-instances", "1"), "--max-instances 1 is less than --instances 2"),
        (("--subnets", "subnet-1"), "--subnets and --security-groups go together"),
        (("--tag", "team"), "a tag is KEY=VALUE"),
        (("--serverless-mb", "2048", "--kms-key", "k"), "takes no --kms-key"),
        (("--serverless-mb", "2048", "--alarm", "errors"), "takes no --alarm"),
        (("--serverless-mb", "5000"), "invalid choice"),
    ],
)
def test_options_that_do_not_go_together(
    deploy: ModuleType, options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments(deploy, *options)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "configuration", "reason"),
    [("InService", "intents-0", "the new variant did not pass"), ("Failed", "intents-1", "no capacity")],
)
def test_an_update_that_was_taken_back_is_no_success(
    deploy: ModuleType, session: Any, status: str, configuration: str, reason: str
) -> None:
    clients = Clients(session, "sagemaker")
    described = {**in_service(), "EndpointStatus": status, "EndpointConfigName": configuration, "FailureReason": reason}
    clients.stubs["sagemaker"].add_response("describe_endpoint", described, {"EndpointName": "intents"})
    with pytest.raises(SystemExit) as ended:
        deploy.check(clients.client("sagemaker"), "intents", "intents-1")
    assert ended.value.code == f"intents: {status}, with {configuration} instead of intents-1: {reason}"


def test_an_image_that_was_pushed_again_is_another(deploy: ModuleType, session: Any) -> None:
    clients = Clients(session, "ecr")
    digest = f"sha256:{'1f' * 32}"
    mine = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/models"
    for tag in ("7", "latest"):
        clients.stubs["ecr"].add_response(
            "describe_images",
            {"imageDetails": [{"imageDigest": digest}]},
            {"registryId": "123456789012", "repositoryName": "models", "imageIds": [{"imageTag": tag}]},
        )
    assert deploy.pinned(clients, f"{mine}:7") == deploy.pinned(clients, mine) == f"{mine}@{digest}"
    for other in (f"{mine}@{digest}", "registry.example/models:1"):
        assert deploy.pinned(clients, other) == other
    clients.done()
    clients.stubs["ecr"].add_client_error("describe_images", "AccessDeniedException")
    assert deploy.pinned(clients, f"{mine}:7") == f"{mine}:7"


def test_what_a_model_holds_makes_its_name(deploy: ModuleType) -> None:
    container = {"Image": "a", "ModelDataUrl": "s3://b"}
    assert deploy.short(container, "role") == deploy.short({**container}, "role")
    assert deploy.short(container, "role") != deploy.short({**container, "Image": "c"}, "role")


def test_what_aws_refuses_is_not_hidden(written: Path, deploy: ModuleType, session: Any) -> None:
    session.client("s3").create_bucket(Bucket="models", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    model = json.loads((written / "endpoints.json").read_text())["intents"]
    clients = Clients(session, "sagemaker", "application-autoscaling")
    clients.stubs["sagemaker"].add_client_error("create_model", "ValidationException", "Could not access the image")
    with pytest.raises(Exception, match="Could not access"):
        deploy.create(clients, arguments(deploy), "intents", model)


def test_delete_removes_all_of_an_endpoint(deploy: ModuleType, session: Any) -> None:
    clients = Clients(session, "sagemaker")
    stub = clients.stubs["sagemaker"]
    stub.add_response("describe_endpoint", in_service(), {"EndpointName": "intents"})
    described = {
        "EndpointConfigName": "intents-1",
        "EndpointConfigArn": "arn:aws:sagemaker:eu-west-1:1:endpoint-config/intents",
        "ProductionVariants": [{"VariantName": "AllTraffic", "ModelName": "intents-1"}],
        "CreationTime": 0,
    }
    stub.add_response("describe_endpoint_config", described, {"EndpointConfigName": "intents-1"})
    stub.add_response("delete_endpoint", {}, {"EndpointName": "intents"})
    stub.add_response("delete_endpoint_config", {}, {"EndpointConfigName": "intents-1"})
    stub.add_response("delete_model", {}, {"ModelName": "intents-1"})
    assert deploy.delete(clients, "intents")
    stub.add_client_error("describe_endpoint", "ValidationException", "Could not find endpoint")
    assert not deploy.delete(clients, "intents")
    clients.done()


def test_every_archive_has_an_entry(written: Path, deploy: ModuleType) -> None:
    endpoints = json.loads((written / "endpoints.json").read_text())
    assert {"intents", "search-v2"} == set(endpoints)
    assert all((written / endpoint["model_data"]).is_file() for endpoint in endpoints.values())
    with pytest.raises(SystemExit):
        deploy.parse(["delete", "other"], endpoints)


def test_the_target_of_autoscaling_is_half_of_the_measured_rate(archives: list[Archive], tmp_path: Path) -> None:
    measured = Measurement(10.0, 4000, 32000, 3200.0, {}, "")
    entries = [Entry(Configuration(model=archive.name), [measured]) for archive in archives]
    result = write_result(Result("bench", "", entries), tmp_path)
    deploy_sagemaker(PROJECT, archives, tmp_path / "out", functions=False, bench=result)
    endpoints = json.loads((tmp_path / "out" / "endpoints.json").read_text())
    # 400 requests a second, whatever number of instances each has
    assert {endpoint["invocations_per_minute"] for endpoint in endpoints.values()} == {12_000}
    incomplete = write_result(Result("bench", "", entries[:1]), tmp_path)
    with pytest.raises(DeployError, match=r"has no rate of Search\.v2"):
        deploy_sagemaker(PROJECT, archives, tmp_path / "other", functions=False, bench=incomplete)
    assert not (tmp_path / "other").exists()


def test_archives_that_need_different_images_are_refused(archives: list[Archive], tmp_path: Path) -> None:
    (artifact,) = archives[1].artifacts
    older = type(artifact)(**{**vars(artifact), "versions": {**artifact.versions, "tokenizers": "0.13.3"}})
    made = [archives[0], archives[1]._replace(artifacts=(older,))]
    with pytest.raises(DeployError, match=r"Search\.v2 was compiled with tokenizers 0\.13\.3, and intents with"):
        deploy_sagemaker(PROJECT, made, tmp_path / "out", functions=False, bench=None, aws_image=True)
    assert not (tmp_path / "out").exists()


def test_a_container_has_as_long_to_start_as_its_workers(archives: list[Archive], tmp_path: Path) -> None:
    slow = archives[0]._replace(config={**archives[0].config, "startupTimeout": 900})
    deploy_sagemaker(PROJECT, [slow, archives[1]], tmp_path / "out", functions=False, bench=None)
    endpoints = json.loads((tmp_path / "out" / "endpoints.json").read_text())
    waits = [(each["startup_s"], each["environment"]["MARINA_STARTUP_S"]) for each in endpoints.values()]
    assert waits == [(900, "900"), (600, "600")]
    variant = load(tmp_path / "out" / "deploy.py").capacity(
        Namespace(serverless_mb=None), endpoints["intents"], "ml.c7i.xlarge", 2
    )
    assert variant["ContainerStartupHealthCheckTimeoutInSeconds"] == 900
    assert "Default: 900" in (tmp_path / "out" / "endpoint.yaml").read_text()
    endless = archives[0]._replace(config={**archives[0].config, "startupTimeout": 4000})
    with pytest.raises(DeployError, match=r"waits at most 3600 s .* of intents is 4000"):
        deploy_sagemaker(PROJECT, [endless], tmp_path / "other", functions=False, bench=None)


@pytest.mark.parametrize("template", ["endpoint.yaml", "lambda/template.yaml"])
def test_templates_are_valid(folder: Path, template: str, tmp_path: Path) -> None:
    done = cfn_lint(folder / template)
    assert done.returncode == 0, done.stdout
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text((folder / template).read_text().replace("Description:", "Descrition:", 1))
    assert cfn_lint(wrong).returncode != 0


def test_the_image_and_its_script_are_clean(folder: Path) -> None:
    (dockerfile,) = (path for path in folder.rglob("Dockerfile"))
    for command in (("hadolint", dockerfile), ("shellcheck", folder / "push.sh")):
        done = subprocess.run([BIN / command[0], command[1]], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
    missing = subprocess.run(["./push.sh"], cwd=folder, capture_output=True, text=True, check=False)
    assert (missing.returncode, missing.stderr) == (1, "usage: ./push.sh ACCOUNT REGION REPOSITORY\n")


def test_nothing_names_this_machine(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert str(ROOT).encode() not in content
            assert str(folder).encode() not in content


@pytest.mark.usefixtures("numbered")
def test_every_endpoint_of_an_image_serves_its_model(with_image: Path, deploy: ModuleType, session: Any) -> None:
    endpoints = json.loads((with_image / "endpoints.json").read_text())
    assert {model["environment"]["MARINA_MODELS"] for model in endpoints.values()} == {"intents", "Search.v2"}
    packed = {path.stem for path in (with_image / "image" / "project" / "archives").glob("*.mar")}
    assert packed == {"intents", "Search.v2"}
    clients = Clients(session, "sagemaker", "application-autoscaling")
    stub = clients.stubs["sagemaker"]
    container = {"Image": "registry.example/models@sha256:1f", "Environment": endpoints["intents"]["environment"]}
    model = {"ModelName": ANY, "ExecutionRoleArn": ROLE, "PrimaryContainer": container}
    stub.add_response("create_model", {"ModelArn": "arn:aws:sagemaker:eu-west-1:1:model/intents"}, model)
    stub.add_response(
        "create_endpoint_config", {"EndpointConfigArn": "arn:aws:sagemaker:eu-west-1:1:endpoint-config/i"}
    )
    stub.add_response("create_endpoint", {"EndpointArn": "arn:aws:sagemaker:eu-west-1:1:endpoint/intents"})
    for _ in ("the waiter", "the check"):
        stub.add_response("describe_endpoint", in_service(), {"EndpointName": "intents"})
    given = ["create", "--role", ROLE, "--image", container["Image"], "intents"]
    deploy.create(clients, deploy.parse(given, endpoints), "intents", endpoints["intents"])
    clients.done()


@pytest.mark.parametrize(("fixture", "missing"), [("with_image", "--image"), ("written", "--bucket")])
def test_what_an_endpoint_is_made_of_must_be_given(
    fixture: str, missing: str, deploy: ModuleType, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoints = json.loads((request.getfixturevalue(fixture) / "endpoints.json").read_text())
    with pytest.raises(SystemExit) as ended:
        deploy.parse(["create", "--role", ROLE], endpoints)
    assert ended.value.code == 2
    assert f"give {missing}" in capsys.readouterr().err
