"""What AWS documents about the Neuron SDK, Marina relies on, and nobody has run: by the check that confirms it.

The checks of `marina doctor --hardware` are those of `Engine.sdk_commands` and `Engine.hardware_trials`, and "compile",
"bundle" and "device memory".
"""

from marina.engines.values import CORE_PER_WORKER, DATA_PARALLEL, PIPELINE

NEURON = {
    "import": "torch_neuron can be imported",
    "list-operators": "neuron-cc prints the operators that it compiles",
    "compile": "graphs compile with neuron-cc",
    CORE_PER_WORKER: "the pinned driver loads graphs, and each worker computes on its leased core",
    "exact": "fast_math: none gives numbers nearer to the reference's",
    "older-cast": "the older option --fp32-cast compiles",
    "separate-weights": "weights outside of the graph are loaded",
    PIPELINE: "a graph is spread over several cores",
    "pipeline-copies": "a group holds several copies of a graph",
    DATA_PARALLEL: "DataParallel divides the rows of a call among the cores",
    "bundle": "several models share a core",
    "device memory": "a graph needs at most 2 bytes of device memory for each of its weights",
}
NEURONX = {
    "import": "torch_neuronx can be imported with NEURON_PLATFORM_TARGET_OVERRIDE",
    "list-operators": "neuronx-cc prints the operators that it compiles",
    "analyze": "torch_neuronx.analyze says which operators are supported",
    "compile": "graphs compile with cpu_backend and --target",
    CORE_PER_WORKER: "the pinned driver and runtime load graphs, and each worker computes on its leased core",
    "exact": "auto_cast: none gives the reference's numbers",
    "all-bf16": "auto_cast: all gives numbers, with the remedies against NaN",
    "separate-weights": "weights outside of the graph go to the core with move_trace_to_device",
    "reused-graphs": "replace_weights gives graphs the weights of another model",
    "dynamic-batch": "graphs with dynamic_batch and async_load load and compute",
    DATA_PARALLEL: "DataParallel divides the rows of a call among the cores",
    "bundle": "several models share a core",
    "device memory": "a graph needs at most 1.3 times its weights of device memory",
}
