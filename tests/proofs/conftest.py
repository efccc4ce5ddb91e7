"""Each proof is for the environment of one stack; elsewhere its tests are not even collected."""

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec


def _has_inf1() -> bool:
    try:
        return version("torch").startswith("1.13.")
    except PackageNotFoundError:
        return False


collect_ignore = [
    *([] if find_spec("torch_xla") else ["test_xla.py"]),
    *([] if _has_inf1() else ["test_inf1.py"]),
]
