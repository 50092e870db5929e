"""The heads of the installed Transformers: every model class whose forward takes labels.

The modeling files are read, not imported: there are hundreds, and importing them all takes a minute.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gafixer.parity.tasks import LABEL_ARGUMENTS, Task, task_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Head", "find_head", "installed_heads"]

_TOP = re.compile(r"^(?=class |def |@)", re.MULTILINE)
_HEADER = re.compile(r"class (?P<name>\w+)\s*(?:\((?P<bases>[^:]*)\))?\s*:")
_FORWARD = re.compile(r"^    def forward\(.*?(?=^    (?:def|async|class)\b|^    @|\Z)", re.MULTILINE | re.DOTALL)
_SHARED = ("modeling_layers", "modeling_utils")  # where heads inherit forwards from


@dataclass(frozen=True, slots=True, order=True)
class Head:
    """A model class with a default loss; `module` is importable, `labels` are the target arguments of its forward."""

    name: str
    module: str
    labels: tuple[str, ...]

    @property
    def task(self) -> Task:
        """What the head is trained for."""
        return task_of(self.name, self.labels)

    def load(self) -> Any:
        """The class itself.

        Raises:
            ImportError: where a dependency of the modeling file is missing.
        """
        return getattr(importlib.import_module(self.module), self.name)


@dataclass(frozen=True, slots=True)
class _Class:
    name: str
    bases: tuple[str, ...]
    arguments: frozenset[str] | None  # of its own forward; None where it inherits one


def _classes(path: Path) -> dict[str, _Class]:
    """The classes of a module. Only the headers and the forwards are parsed: a tenth of the text."""
    source = path.read_text(encoding="utf-8")
    starts = [match.start() for match in _TOP.finditer(source)]
    found = {}
    for start, end in zip(starts, [*starts[1:], len(source)], strict=True):
        block = source[start:end]
        header = _HEADER.match(block)
        if header is not None:
            name, bases = header["name"], header["bases"] or ""
            found[name] = _Class(name, _last_names(bases), _forward_arguments(block))
    return found


def _last_names(bases: str) -> tuple[str, ...]:
    call = ast.parse(f"f({bases})", mode="eval").body
    return tuple(ast.unparse(base).rpartition(".")[2] for base in call.args) if isinstance(call, ast.Call) else ()


def _forward_arguments(block: str) -> frozenset[str] | None:
    chunk = _FORWARD.search(block)
    if chunk is None:
        return None
    arguments = next(n for n in ast.walk(ast.parse(f"class _:\n{chunk[0]}")) if isinstance(n, ast.FunctionDef)).args
    return frozenset(a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))


def _lineage(name: str, known: list[dict[str, _Class]]) -> Iterator[_Class]:
    """The class and its bases, nearest first: in its own file, then in the shared ones, then in any other."""
    seen, queue = set(), [name]
    while queue:
        current = queue.pop(0)
        if current in seen:
            continue
        seen.add(current)
        found = next((classes[current] for classes in known if current in classes), None)
        if found is not None:
            yield found
            queue += found.bases


def _labels(name: str, known: list[dict[str, _Class]]) -> tuple[str, ...]:
    lineage = list(_lineage(name, known))
    if not any(base.endswith("PreTrainedModel") for entry in lineage for base in (entry.name, *entry.bases)):
        return ()
    arguments = next((entry.arguments for entry in lineage if entry.arguments is not None), frozenset())
    return tuple(sorted(arguments & LABEL_ARGUMENTS))


@functools.cache
def _census() -> tuple[Head, ...]:
    spec = importlib.util.find_spec("transformers")
    if spec is None or spec.origin is None:
        raise ImportError("transformers is not installed")
    root = Path(spec.origin).parent
    files = [
        path
        for path in sorted((root / "models").glob("**/modeling_*.py"))
        if not path.name.startswith(("modeling_tf_", "modeling_flax_"))
    ]
    by_file = {path: _classes(path) for path in files}
    shared = [_classes(root / f"{name}.py") for name in _SHARED if (root / f"{name}.py").exists()]
    everywhere = {name: entry for classes in by_file.values() for name, entry in classes.items()}
    heads = []
    for path, classes in by_file.items():
        module = "transformers." + ".".join(path.relative_to(root).with_suffix("").parts)
        known = [classes, *shared, everywhere]
        heads += [Head(name, module, labels) for name in classes if (labels := _labels(name, known))]
    return tuple(sorted(heads))


def installed_heads(pattern: str = "", tasks: frozenset[Task] | None = None) -> tuple[Head, ...]:
    """The heads whose name matches `pattern` (a regular expression, searched) and whose task is in `tasks`."""
    wanted = re.compile(pattern)
    return tuple(h for h in _census() if wanted.search(h.name) and (tasks is None or h.task in tasks))


def find_head(name: str) -> Head:
    """The head of that name.

    Raises:
        LookupError: where the installed release has none.
    """
    for head in _census():
        if head.name == name:
            return head
    raise LookupError(f"no model class {name} with labels in the installed transformers")
