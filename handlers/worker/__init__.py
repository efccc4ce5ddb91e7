"""The worker: what an archive carries beside its entry file and its artifact.

    values, errors    what every room speaks of
    artifact, golden  the model's files, and the proof that graphs compute what they should
    placement/        cores: which there are, core groups, leases
    engines/          one file an engine: runs graphs
    settings          how a model is served, as its archive says
    request/          bodies to instances, answers to bodies; one file a protocol
    rows/             instances to rows of tokens, plans, calls
    tasks/            one file a task: outputs to answers
    telemetry/        what a worker counts and tells of itself
    model             all of these together: a batch of bodies to replies
    hosts/            TorchServe: what calls the model, and takes its replies and counts

A request flows one way: parse -> tokenize -> plan -> calls -> gather -> answer.
Nothing here imports `marina`: an archive carries this package and runs without the repository.
"""
