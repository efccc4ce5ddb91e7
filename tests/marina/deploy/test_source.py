"""Names on targets."""

from __future__ import annotations

import re
import zipfile

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.archive.artifact import CONFIG_FILE
from handlers.worker.errors import ArtifactError
from marina.archive.describe import Archive, describe_archive
from marina.deploy.source import dns_name, image_of, joint_name, names_of, read_archives
from marina.errors import DeployError
from marina.project import Project


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,80}", fullmatch=True))
def test_a_name_fits_every_target(name: str) -> None:
    found = dns_name(name)
    assert re.fullmatch(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", found)
    assert yaml.safe_load(found) == found


def test_names_stay_where_they_can() -> None:
    names = ("ava-intent", "Resume_Search.v2", "7", "on")
    assert [dns_name(name) for name in names] == ["ava-intent", "resume-search-v2", "m-7", "m-on"]
    long = [f"{'a' * 60}-{end}" for end in "bc"]
    assert len({dns_name(name) for name in long}) == 2


def test_two_archives_never_share_a_name(archives: list[Archive]) -> None:
    assert list(names_of(archives)) == ["intents", "search-v2"]
    other = archives[1]._replace(path=archives[1].path.with_name("search_V2.mar"))
    with pytest.raises(DeployError, match=r"Search\.v2 and search_V2 would both be called search-v2"):
        names_of([archives[1], other])


def test_a_damaged_archive_is_named(project: Project, archives: list[Archive]) -> None:
    path = project.model_store / "m.mar"
    whole = archives[0].path.read_bytes()
    for damaged in (b"PK junk", whole[: len(whole) // 2], b""):
        path.write_bytes(damaged)
        with pytest.raises(ArtifactError, match=r"m\.mar .*damaged"):
            describe_archive(path)
    with zipfile.ZipFile(archives[0].path) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            target.writestr(name, b"a: [" if name == CONFIG_FILE else source.read(name))
    with pytest.raises(DeployError, match=rf"m\.mar cannot be deployed: .*{CONFIG_FILE} is damaged.*marina archive m"):
        read_archives(project, ["m"])


def test_what_serves_several_has_a_name(archives: list[Archive]) -> None:
    assert [joint_name(archives, None), joint_name(archives[:1], None)] == ["intents-search-v2", "intents"]
    assert joint_name(archives, "bots") == "bots"
    with pytest.raises(DeployError, match="write bots-2"):
        joint_name(archives, "Bots 2")


def test_images_have_a_tag_or_a_digest() -> None:
    digest = f"sha256:{'0a' * 32}"
    for reference, parts in (
        ("models:1", ("models", "1", "")),
        ("registry:5000/team/models:v1.2_b", ("registry:5000/team/models", "v1.2_b", "")),
        (f"r.io/models@{digest}", ("r.io/models", "", digest)),
        (f"r.io/models:1@{digest}", ("r.io/models", "1", digest)),
    ):
        assert image_of(reference) == parts
        assert str(image_of(reference)) == reference
    for wrong in ("models", "registry:5000/models"):
        with pytest.raises(DeployError, match="names no tag"):
            image_of(wrong)
    for wrong in ("models@sha256:0", ":1", "", "r.io/x:1; rm -rf", 'R.IO/Übel "x":a b', "r.io/Models:1", "r.io/x: 1"):
        with pytest.raises(DeployError, match="is not a reference to an image"):
            image_of(wrong)
