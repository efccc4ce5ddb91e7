"""The worker: the code that an archive contains besides its entry file and its artifact.

    values, errors    types that every part of the worker uses
    scripts           loads TorchScript files
    placement/        cores: discovery, core groups, leases
    archive/          what an archive holds: artifacts, and how their models read rows
    engines/          runs graphs; one file per engine
    request/          parses bodies into instances, and writes answers into bodies; one file per protocol
    settings          how a model is served, read from its archive
    tokens/           tokenizes instances into rows
    rows/             plans calls of rows and runs them
    admission/        chooses the requests that are computed now
    tasks/            turns outputs into answers; one file per task
    members/          the models of an archive in memory, proved on their golden rows
    telemetry/        metrics, tracing, and the description of the served model
    answering/        combines all of the above: from a batch of bodies to replies
    hosts/            TorchServe, `direct` and Ray Serve: call the model, and take its replies and metrics

A request passes through these stages: parse -> tokenize -> plan -> calls -> gather -> answer.
Nothing here imports `marina`: an archive contains this package and runs without the repository.
"""
