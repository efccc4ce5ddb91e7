"""Writes the files that a target needs to host archives: `marina deploy TARGET NAME... --output DIR`.

Enters: archives, and a plan if there is one. Leaves: a folder of files. Not known here: how an archive was compiled.

source.py      the archives to deploy, their stack, and their names on targets
needs.py       which host an image has; cores, memory and times of a pod
folder.py      writes a folder whole, or not at all
sagemaker/     Amazon SageMaker: model.tar.gz, endpoints, autoscaling, a Lambda function in front
scale.py       how many instances, from a plan
image/         images for containers
kubernetes/    manifests for Kubernetes, and for KServe
ecs/           a task definition and a service for Amazon ECS
ray/           Ray Serve: on a cluster, with KubeRay, and in AWS's image for SageMaker

Each folder has the target's function in its `__init__.py`, and in `files/` the files that it writes.
"""
