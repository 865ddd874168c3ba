"""The build backend of `pip install .`: scikit-build-core, told that what it compiled before is still good.

pip runs every build in an environment of its own. scikit-build-core sees another path of itself then and removes
CMakeFiles, where the objects of all libraries are: everything would be compiled again. What an object depends on is its
source, its flags and its headers, and Ninja compares these; the environment's only headers, nanobind's, are copied to a
place that stays (python/CMakeLists.txt).
"""
from __future__ import annotations

import json
import pathlib
from typing import Any

import scikit_build_core
from scikit_build_core import build as _inner
from scikit_build_core.build import (build_sdist, get_requires_for_build_editable, get_requires_for_build_sdist,  # noqa: F401
                                     get_requires_for_build_wheel, prepare_metadata_for_build_editable,
                                     prepare_metadata_for_build_wheel)

_ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def keep_objects(build: pathlib.Path) -> None:
    """Writes this environment's path where scikit-build-core would find another one's."""
    here = str(pathlib.Path(scikit_build_core.__file__).resolve().parent)
    for path in build.glob("*/.skbuild-info.json"):
        try:
            info = json.loads(path.read_text("utf-8"))
            if isinstance(info, dict) and info.get("skbuild_path") not in (None, here):
                path.write_text(json.dumps({**info, "skbuild_path": here}, indent=2), "utf-8")
        except (OSError, ValueError):  # unreadable: scikit-build-core begins anew
            continue


def build_wheel(*arguments: Any, **named: Any) -> str:
    keep_objects(_ROOT / "build")
    return _inner.build_wheel(*arguments, **named)


def build_editable(*arguments: Any, **named: Any) -> str:
    keep_objects(_ROOT / "build")
    return _inner.build_editable(*arguments, **named)
