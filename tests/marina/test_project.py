from pathlib import Path

import pytest

from marina.errors import MarinaError
from marina.project import Project, find_project


def test_a_project_is_found_from_any_folder_in_it(project: Project) -> None:
    deep = project.root / "models" / "deep"
    deep.mkdir()
    assert find_project(deep) == project
    assert find_project(project.root) == project


def test_archives_do_not_include_hidden_files(project: Project) -> None:
    for name in ("b.mar", "a.mar", ".draining-7.mar", "a.json"):
        (project.model_store / name).touch()
    assert project.archives() == [project.model_store / "a.mar", project.model_store / "b.mar"]


def test_elsewhere_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(MarinaError, match="is not in a Marina project; go to the folder that holds models/"):
        find_project(tmp_path)
