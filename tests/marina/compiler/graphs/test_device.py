import pytest

from handlers.worker.engines import Setup
from handlers.worker.errors import ArtifactError
from marina.compiler.graphs.device import EngineProcess


def test_a_process_that_ended_while_nothing_ran_is_told_as_that() -> None:
    device = EngineProcess("neuronx", None, Setup(1, 1), "m")
    assert device.refusal  # there are no NeuronCores, so that it ends at once
    device._process.join()
    with pytest.raises(ArtifactError, match=r"the process that runs graphs on the NeuronCores ended \(exit 0\)"):
        device.call("load")
    device.close()
