"""The environment variables that a server and its workers get: those that they need, and no others.

A worker runs the code of an archive, and can read the environment of its parent processes. So nothing that starts
a server passes on variables that may hold secrets. `config.properties` applies the same list to workers, for servers
that are started without Marina.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

# not among them: OTEL_EXPORTER_OTLP_HEADERS, which may hold the key of a service; LOCAL_RANK, which shifts the sockets
# that workers listen on; TS_CONFIG_FILE, which would replace our configuration
ALLOWED = """
PATH HOME USER LOGNAME SHELL LANG LANGUAGE LC_[A-Z]+ TZ TERM TMPDIR TEMP LOG_LOCATION METRICS_LOCATION
JAVA_HOME LD_LIBRARY_PATH LD_PRELOAD PYTHONPATH PYTHONHASHSEED PYTHONUNBUFFERED PYTHONWARNINGS VIRTUAL_ENV
MARINA_LEASES NEURONCORE_GROUP_SIZES NEURON_[A-Z0-9_]+ PJRT_[A-Z0-9_]+ XLA_FLAGS XLA_IR_DEBUG XLA_HLO_DEBUG
OMP_[A-Z0-9_]+ KMP_[A-Z0-9_]+ MKL_[A-Z0-9_]+ GOMP_[A-Z0-9_]+ MALLOC_[A-Z0-9_]+ ONEDNN_[A-Z0-9_]+
OTEL_SERVICE_NAME OTEL_RESOURCE_ATTRIBUTES OTEL_EXPORTER_OTLP_ENDPOINT OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
RAYON_NUM_THREADS TOKENIZERS_PARALLELISM HF_HUB_OFFLINE CUDA_VISIBLE_DEVICES
TS_DECODE_INPUT_REQUEST TS_IPEX_ENABLE TS_IPEX_GPU_ENABLE
""".split()  # noqa: SIM905
PATTERN = "|".join(ALLOWED)


def serving_env(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of an environment that a server, its workers, and what restarts them may have."""
    return {name: value for name, value in environment.items() if re.fullmatch(PATTERN, name)}
