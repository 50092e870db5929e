"""What an import means: relative, starred, of packages, in circles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gafixer.analysis.checkout import FileProject
from gafixer.analysis.names import Names
from gafixer.analysis.source import Module
from gafixer.analysis.values import ClassRef, External, Func, ModuleRef

if TYPE_CHECKING:
    from pathlib import Path

    from gafixer.analysis.names import Assigned
    from gafixer.analysis.values import Value

PROJECT = {
    "pyproject.toml": "",
    "losses.py": "def compute(x):\n    return x\n\nPAD = 0\n\nclass Loss:\n    def forward(self): ...\n",
    "circle_a.py": "from circle_b import there\nhere = 1\ndef own(): ...\n",
    "circle_b.py": "from circle_a import here, own\nthere = 2\n",
    "endless_a.py": "from endless_b import nothing\n",
    "endless_b.py": "from endless_a import nothing\n",
    "starred.py": "from losses import *\nfrom starred import *\n",
    "pkg/__init__.py": "from .inner import compute as renamed\nfrom . import inner\nfrom .sub import *\n",
    "pkg/inner.py": "from ..losses import PAD\nfrom .sub.deep import far\ndef compute(x): ...\n",
    "pkg/sub/__init__.py": "from .deep import far\ndef near(): ...\n",
    "pkg/sub/deep.py": "from ...losses import Loss\nfrom .. import inner\ndef far(): ...\n",
    "src/installed/__init__.py": "",
    "src/installed/core.py": "def run(): ...\n",
    "broken.py": "def compute(:\n",
}


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Names:
    """The names of the project's train.py, which imports everything."""
    for path, text in PROJECT.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    source = "\n".join(f"from {module} import {name} as {local}" for local, (module, name) in IMPORTS.items())
    source += "\nimport torch.nn.functional as F\nimport losses\nimport pkg.sub.deep\nimport torch.optim\n"
    source += "def own(): ...\n"
    (tmp_path / "train.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    return Names(FileProject(), Module.read("train", "train.py", source.encode(), whole=True))


#: local name -> what is imported
IMPORTS = {
    "plain": ("losses", "compute"),
    "cls": ("losses", "Loss"),
    "number": ("losses", "PAD"),
    "through_package": ("pkg", "renamed"),
    "module_of_package": ("pkg", "inner"),
    "star_of_package": ("pkg", "far"),
    "star_of_package_own": ("pkg", "near"),
    "up_two": ("pkg.inner", "PAD"),
    "up_three": ("pkg.sub.deep", "Loss"),
    "package_from_below": ("pkg.sub.deep", "inner"),
    "starred": ("starred", "compute"),
    "starred_missing": ("starred", "nothing"),
    "circle": ("circle_a", "there"),
    "circle_back": ("circle_b", "own"),
    "endless": ("endless_a", "nothing"),
    "in_src": ("installed.core", "run"),
    "broken": ("broken", "compute"),
    "library": ("torch.nn", "CrossEntropyLoss"),
    "self_import": ("train", "own"),
}


def _said(found: Value | Assigned | None) -> str:
    match found:
        case Func(module=module, node=node):
            return f"function {getattr(node, 'name', '')} of {module}"
        case ClassRef(module=module, name=name):
            return f"class {name} of {module}"
        case ModuleRef(name=name):
            return f"module {name}"
        case External(path=path):
            return f"library {path}"
        case None:
            return "nothing"
        case _:
            return f"assigned in {found.module.path}" if hasattr(found, "node") and hasattr(found, "module") else "?"


@pytest.mark.parametrize(
    ("local", "means"),
    [
        ("plain", "function compute of losses.py"),
        ("cls", "class Loss of losses.py"),
        ("number", "assigned in losses.py"),
        ("through_package", "function compute of pkg/inner.py"),
        ("module_of_package", "module pkg/inner.py"),
        ("star_of_package", "function far of pkg/sub/deep.py"),
        ("star_of_package_own", "function near of pkg/sub/__init__.py"),
        ("up_two", "assigned in losses.py"),
        ("up_three", "class Loss of losses.py"),
        ("package_from_below", "module pkg/inner.py"),
        ("starred", "function compute of losses.py"),
        ("starred_missing", "library starred.nothing"),
        ("circle", "assigned in circle_b.py"),
        ("circle_back", "function own of circle_a.py"),
        ("in_src", "function run of src/installed/core.py"),
        ("library", "library torch.nn.CrossEntropyLoss"),
        ("self_import", "function own of train.py"),
        ("F", "library torch.nn.functional"),
        ("losses", "module losses.py"),
        ("torch", "library torch"),
        ("own", "function own of train.py"),
        ("unheard_of", "nothing"),
    ],
)
def test_meaning(names: Names, local: str, means: str) -> None:
    """Of each name in train.py."""
    module = names.modules["train.py"]
    assert _said(names.lookup(module, local)) == means
    assert _said(names.lookup(module, local)) == means, "asked again"


def test_circles_end(names: Names) -> None:
    """Two modules that import a name from each other, which neither has, and one that does not parse."""
    module = names.modules["train.py"]
    for local in ("endless", "broken"):
        assert names.lookup(module, local) is not None


def test_members_of_modules(names: Names) -> None:
    """``pkg.sub.deep.far`` by attributes."""
    found: Value | Assigned | None = names.lookup(names.modules["train.py"], "pkg")
    for attr in ("sub", "deep", "far"):
        assert isinstance(found, ModuleRef)
        found = names.member(found, attr)
    assert _said(found) == "function far of pkg/sub/deep.py"


CLASSES = """\
import torch.nn as nn

class Base(nn.Module):
    size = 3
    def forward(self): ...
    def only(self): ...

class Mixin:
    def forward(self): ...
    def mixed(self): ...

class Child(Base, Mixin):
    width: int = 4
    def forward(self): ...

class Own(Own):
    def forward(self): ...

class First(Second): ...
class Second(First):
    def forward(self): ...
"""


@pytest.fixture
def classes() -> Names:
    """The names of a module of classes."""
    return Names(FileProject(), Module.read("classes", "classes.py", CLASSES.encode(), whole=True))


def _class(classes: Names, name: str) -> ClassRef:
    found = classes.lookup(classes.modules["classes.py"], name)
    assert isinstance(found, ClassRef)
    return found


@pytest.mark.parametrize(
    ("cls", "method", "after", "owner"),
    [
        ("Child", "forward", None, "Child"),
        ("Child", "forward", "Child", "Base"),
        ("Child", "only", None, "Base"),
        ("Child", "mixed", None, "Mixin"),
        ("Child", "absent", None, None),
        ("Own", "forward", None, "Own"),
        ("Own", "forward", "Own", None),
        ("First", "forward", None, "Second"),
        ("Second", "forward", "Second", None),
    ],
)
def test_methods_are_inherited(classes: Names, cls: str, method: str, after: str | None, owner: str | None) -> None:
    """From the nearest class that has one, and by ``super()`` from the next."""
    found = classes.method(_class(classes, cls), method, _class(classes, after) if after else None)
    assert (found.owner.name if found is not None and found.owner is not None else None) == owner


def test_lineage_and_fields(classes: Names) -> None:
    """Project classes and library names; fields with the module that they stand in."""
    lineage = [c.name if isinstance(c, ClassRef) else c.path for c in classes.lineage(_class(classes, "Child"))]
    assert lineage == ["Child", "Base", "torch.nn.Module", "Mixin"]
    for field in ("size", "width"):
        assert classes.field(_class(classes, "Child"), field) is not None
    assert classes.field(_class(classes, "Child"), "absent") is None


def test_a_project_lets_go_of_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were asked for last stay; another is read anew, and is what it was."""
    for number in range(200):
        (tmp_path / f"m{number}.py").write_text(f"x = {number}\n")
    monkeypatch.chdir(tmp_path)
    project = FileProject([f"m{number}.py" for number in range(200)])
    first, *_, last = [project.module(f"m{number}", "train.py") for number in range(200)]
    project.forget()
    assert project.module("m199", "train.py") is last
    again = project.module("m0", "train.py")
    assert again is not first
    assert again == first
    assert project.editable("m1.py") is not None
    assert project.editable("train.py") is None
