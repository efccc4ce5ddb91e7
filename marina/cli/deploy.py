"""`marina deploy TARGET`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from marina.cli.options import JsonOption, SomeNames, known_host
from marina.console import err, print_json, relative, say
from marina.project import find_project

app = typer.Typer(
    name="deploy",
    help="Write what a target needs to host archives of model_store: a folder of files, made from the archives.",
    no_args_is_help=True,
)
NameOption = Annotated[
    str | None,
    typer.Option(
        "--name", metavar="NAME", help="What to call it. Default: the names of the archives, joined with hyphens."
    ),
]
PlanOption = Annotated[
    Path | None,
    typer.Option(
        "--plan", metavar="FILE", help="A plan.json of marina plan --write: how many instances, and when to add one."
    ),
]
ImageHostOption = Annotated[
    str | None,
    typer.Option(
        "--host",
        callback=known_host,
        envvar="MARINA_HOST",
        metavar="HOST",
        help="What carries the workers in the image: direct, which needs no Java, or torchserve. Default: that of "
        "--plan, else direct on CPUs and torchserve on Neuron.",
    ),
]
OutputOption = Annotated[Path, typer.Option("--output", metavar="DIR", help="The folder to write; it must not exist.")]


def _archives(names: list[str]) -> Any:
    from marina.deploy.source import read_archives

    return read_archives(find_project(), names)


def _finish(output: Path, as_json: bool) -> None:
    """Show the files that were written, and how many there are in each folder."""
    if as_json:
        files = sorted(str(path.relative_to(output)) for path in output.rglob("*") if path.is_file())
        print_json({"folder": str(output), "files": files})
        return
    for path in sorted(output.iterdir()):
        count = sum(inner.is_file() for inner in path.rglob("*"))
        say(f"{relative(path)}{f'/ ({count} files)' if path.is_dir() else ''}")
    say(f"next: {relative(output / 'README.md')}")


@app.command(epilog="Example: `marina deploy sagemaker resume-search resume-ner --output build/deploy/sagemaker`")
def sagemaker(
    names: SomeNames,
    output: OutputOption,
    functions: Annotated[
        bool,
        typer.Option(
            "--functions",
            metavar="",
            help="Put model_fn, input_fn, predict_fn and output_fn into model.tar.gz, in code/inference.py, in place "
            "of the archive's handler. Requests are then not batched.",
        ),
    ] = False,
    bench: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A result.json of marina bench, for the target of autoscaling."),
    ] = None,
    plan: PlanOption = None,
    aws_image: Annotated[
        bool,
        typer.Option(
            "--aws-image", metavar="", help="Serve in AWS's image, from model.tar.gz. Always so for Inferentia."
        ),
    ] = False,
    host: ImageHostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Amazon SageMaker: an image or model.tar.gz, endpoints, autoscaling, a Lambda function.

    Each archive becomes an endpoint. On CPUs they run Marina's image, which push.sh builds from image/. deploy.py makes
    and removes endpoints with boto3, endpoint.yaml does the same with CloudFormation, and lambda/ is an HTTP API.
    """
    from marina.deploy.sagemaker import deploy_sagemaker

    deploy_sagemaker(find_project(), _archives(names), output, functions, bench, plan, aws_image, host)
    _finish(output, as_json)


@app.command(epilog="Example: `marina deploy image ava-intent --output build/deploy/image`")
def image(
    names: SomeNames,
    output: OutputOption,
    mounted: Annotated[
        bool,
        typer.Option("--mounted", metavar="", help="Leave the archives out; mount them at /srv/marina/archives."),
    ] = False,
    host: ImageHostOption = None,
    as_json: JsonOption = False,
) -> None:
    """An image for containers: a Dockerfile, and all that it needs.

    The image runs without root and on a read-only file system, and requests need a token. /ping says 200 while every
    model has a worker that is READY, and /invocations is SageMaker's URL. With --host torchserve, Java is in the image,
    and nginx stands in front of TorchServe.
    """
    from marina.deploy.image import deploy_image

    checksums = deploy_image(find_project(), _archives(names), output, mounted, host)
    _finish(output, as_json)
    if not checksums:
        err.print("requirements.txt has no checksums: install uv, and let it reach the package index")


@app.command(epilog="Example: `marina deploy kubernetes ava-intent --output build/deploy/kubernetes`")
def kubernetes(
    names: SomeNames,
    output: OutputOption,
    image: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="Image with tag or digest. Default: the archive's name and version."),
    ] = None,
    cpus: Annotated[
        int, typer.Option(min=1, max=1024, metavar="N", help="CPU cores of a pod, for archives without core groups.")
    ] = 2,
    secret: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A Secret of the cluster with the token under the key token. Default: made."),
    ] = None,
    name: NameOption = None,
    archives: Annotated[
        str | None,
        typer.Option(
            "--archives",
            metavar="S3_URL",
            help="A folder s3://BUCKET/FOLDER from which pods load the archives when they start.",
        ),
    ] = None,
    service_account: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --archives: the ServiceAccount of the pods, which may read them."),
    ] = None,
    plan: PlanOption = None,
    host: ImageHostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Kubernetes: manifests for an image of `marina deploy image`, for kubectl apply --kustomize.

    The pods have probes that know the workers, a drain, and the memory and cores that the archives need. Optional
    files scale by the time in the queue, let Prometheus read the metrics, and serve the image under KServe.
    """
    from marina.deploy.kubernetes import deploy_kubernetes

    deploy_kubernetes(_archives(names), output, image, cpus, name, plan, secret, host, archives, service_account)
    _finish(output, as_json)


@app.command(epilog="Example: `marina deploy ecs ava-intent --output build/deploy/ecs`")
def ecs(
    names: SomeNames,
    output: OutputOption,
    cpus: Annotated[
        int, typer.Option(min=1, max=1024, metavar="N", help="CPU cores of a task, for archives without core groups.")
    ] = 2,
    name: NameOption = None,
    plan: PlanOption = None,
    host: ImageHostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Amazon ECS: a task definition and a service for an image of `marina deploy image`.

    On the stacks of Inferentia the task gets the devices that its core groups need. deploy.py makes and removes the
    service with boto3.
    """
    from marina.deploy.ecs import deploy_ecs

    deploy_ecs(_archives(names), output, cpus, name, plan, host)
    _finish(output, as_json)


@app.command(epilog="Example: `marina deploy ray ava-intent resume-search --output build/deploy/ray`")
def ray(
    names: SomeNames,
    output: OutputOption,
    cpus: Annotated[
        int,
        typer.Option(min=1, max=1024, metavar="N", help="CPU cores of a replica without core groups."),
    ] = 1,
    replicas: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="The most replicas of each model that autoscaling starts.")
    ] = 4,
    name: NameOption = None,
    plan: PlanOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ray Serve: the same archives on many machines, with TorchServe's URLs, answers and errors.

    config.yaml is for `serve deploy` on a cluster, rayservice.yaml for KubeRay, and sagemaker.yaml for AWS's image of
    Ray Serve. Each model is a deployment that scales by itself, and each replica has a core group.
    """
    from marina.deploy.ray import deploy_ray

    deploy_ray(_archives(names), output, cpus, replicas, name, plan)
    _finish(output, as_json)
