"""`python -m benchmarks.compare_wrk`: whether wrk, which shares no code with `marina bench`, measures the same.

Both send the same bodies to ava-intent on the project's running server, with the same connections, in turns. Needs wrk.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from statistics import median

from marina.bench.load.payload import MIX, read_payload
from marina.bench.load.profile import Load
from marina.bench.load.runner import measure
from marina.bench.server.endpoint import local_endpoint
from marina.console import print_table
from marina.errors import MarinaError
from marina.project import find_project

MODEL = "ava-intent"
CONNECTIONS = (16, 64)
ROUNDS, SECONDS = 3, 10
SCRIPT = """
local bodies, number = {}, 0
for line in io.lines("%s") do bodies[#bodies + 1] = line end
request = function()
  number = number %% #bodies + 1
  local headers = {["Authorization"] = "Bearer %s", ["Content-Type"] = "application/json"}
  return wrk.format("POST", "%s", headers, bodies[number])
end
done = function(summary, latency)
  local failed = summary.errors.status + summary.errors.timeout + summary.errors.read + summary.errors.connect
  print(string.format('{"answered": %%d, "us": %%d, "p50": %%f, "p99": %%f, "failed": %%d}', summary.requests,
    summary.duration, latency:percentile(50) / 1000, latency:percentile(99) / 1000, failed))
end
"""


def main() -> None:
    """Measure with both in turns, and print their medians and the ratios of these."""
    if shutil.which("wrk") is None:
        raise MarinaError("wrk is not on the PATH; install it, for example with apt install wrk")
    endpoint = local_endpoint(find_project(), MODEL, "rest")
    payload = read_payload(MIX, endpoint.fields, 1)
    target = endpoint.target
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bodies, script = Path(folder) / "bodies", Path(folder) / "ask.lua"
        bodies.write_bytes(b"\n".join(payload.bodies))
        script.write_text(SCRIPT % (bodies, target.token, target.paths[0]))
        for connections in CONNECTIONS:
            wrk_runs, marina_runs = [], []
            for _ in range(ROUNDS):
                command = ["wrk", "-t1", f"-c{connections}", f"-d{SECONDS}s", "-s", str(script)]
                process = subprocess.run(
                    [*command, f"http://{target.address}"], capture_output=True, text=True, check=True
                )
                summary = json.loads(re.findall(r"^\{.*\}$", process.stdout, re.MULTILINE)[-1])
                wrk_runs.append((summary["answered"] / summary["us"] * 1e6, summary["p50"], summary["p99"]))
                load = Load(connections, warm_up_s=0, seconds=SECONDS)
                measurement = measure(target, payload.bodies, 1, load)
                marina_runs.append(
                    (measurement.throughput, measurement.latency_ms["p50"], measurement.latency_ms["p99"])
                )
            for index, (name, digits) in enumerate((("requests/s", 0), ("p50 ms", 1), ("p99 ms", 1))):
                wrk_median = median(run[index] for run in wrk_runs)
                marina_median = median(run[index] for run in marina_runs)
                rows.append(
                    [
                        str(connections),
                        name,
                        f"{wrk_median:.{digits}f}",
                        f"{marina_median:.{digits}f}",
                        f"{marina_median / wrk_median:.2f}",
                    ]
                )
    print_table(["connections", "", "wrk", "marina bench", "ratio"], rows, numbers=3)


if __name__ == "__main__":
    main()
