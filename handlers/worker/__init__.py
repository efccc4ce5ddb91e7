"""The worker: the code that an archive contains besides its entry file and its artifact.

    values, errors    types that every part of the worker uses
    scripts           loads TorchScript files
    artifact, golden  the model's files, and the check that graphs compute the right outputs
    contents          the contents of an archive: one artifact, or the members of a bundle
    placement/        cores: discovery, core groups, leases
    engines/          runs graphs; one file per engine
    settings          how a model is served, read from its archive
    request/          parses bodies into instances, and writes answers into bodies; one file per protocol
    tokens/           tokenizes instances into rows
    rows/             plans calls of rows and runs them
    admission/        chooses the requests that are computed now
    tasks/            turns outputs into answers; one file per task
    telemetry/        metrics, tracing, and the description of the served model
    member, loading   one model in memory, and all models of an archive on the worker's cores
    reply             the response to one request
    model             combines all of the above: from a batch of bodies to replies
    hosts/            TorchServe: calls the model, and receives its replies and metrics

A request passes through these stages: parse -> tokenize -> plan -> calls -> gather -> answer.
Nothing here imports `marina`: an archive contains this package and runs without the repository.
"""
