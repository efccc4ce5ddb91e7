"""The variables that workers get."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from marina.server.run.environment import PATTERN, serving_env
from tests.conftest import ROOT

SECRETS = """
DATABASE_URL SLACK_WEBHOOK api_key AWS_SECRET_ACCESS_KEY aws_session_token HF_TOKEN GITHUB_PAT PGPASSWORD Password
REDIS_URL SENTRY_DSN COOKIE JWT KUBECONFIG NPM_CONFIG_AUTH path_secret MY_PATH PATHS TS_CONFIG_FILE LOCAL_RANK
""".split()  # noqa: SIM905
NEEDED = "PATH HOME LC_ALL JAVA_HOME NEURON_RT_VISIBLE_CORES NEURONCORE_GROUP_SIZES OMP_NUM_THREADS PYTHONPATH"


def test_secrets_stay_outside() -> None:
    assert serving_env(dict.fromkeys([*SECRETS, *NEEDED.split()], "x")) == dict.fromkeys(NEEDED.split(), "x")


def blacklist() -> str:
    (line,) = [line for line in (ROOT / "config.properties").read_text().splitlines() if "blacklist_env_vars" in line]
    return line.partition("=")[2]


@given(st.one_of(st.text("ABCHOMEPTK_x1", max_size=12), st.sampled_from([*SECRETS, *NEEDED.split()])))
def test_the_configuration_removes_from_workers_what_is_not_allowed(name: str) -> None:
    removed = re.fullmatch(blacklist(), name) is not None
    assert removed == (name not in serving_env({name: "x"}))


def test_the_configuration_has_this_list() -> None:
    assert blacklist() == f"(?!(?:{PATTERN})$).*"
