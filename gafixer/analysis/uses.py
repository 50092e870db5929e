"""What a file uses of Transformers: which heads it hands to a Trainer, and whether it accumulates."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis.evidence import Surroundings
from gafixer.analysis.names import Names
from gafixer.analysis.site import Evidence
from gafixer.analysis.spot import Spot
from gafixer.analysis.values import ClassRef, External
from gafixer.data.transformers import CAUSAL_HEADS, COUNTED_HEADS, HEAD_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gafixer.analysis.project import Project
    from gafixer.analysis.source import Module
    from gafixer.findings import Place

__all__ = ["Uses", "library_heads", "uses"]

_TRAINERS = re.compile(r"(?<!class )(?<!\w)(\w*Trainer)\(")
#: Packages whose Trainer is another one.
_OTHERS = frozenset({"composer", "lightning", "pytorch_lightning", "fairseq", "catalyst"})
_PATCHES = re.compile(r"^\s*(?:import gafixer\.patch|from gafixer(?:\.patch)? import (?:patch|apply))", re.MULTILINE)
_STEPS = re.compile(r"gradient_accumulation_steps[\"']?\s*[=:]\s*(?!1\b)")
_STEPS_KEY = "gradient_accumulation_steps"
#: The classes that hold a Trainer's arguments, those of TRL among them.
_ARGUMENTS = re.compile(r"TrainingArguments$|^(?:SFT|DPO|KTO|ORPO|CPO|GRPO|PPO|RLOO|Reward|GKD|PRM|BCO)v?2?Config$")
_NOWHERE = ("", None)
_CLASS = re.compile(rf"\b{HEAD_NAME}\b")


@dataclass(frozen=True, slots=True)
class Uses:
    """A file that trains library heads with a Trainer.

    `heads` are the names of the classes, `causal` says that all of them shift their labels themselves, `tokens` that
    one of them scores tokens, `fixed` that the file makes blocks of one length and leaves no target out. `steps` is
    where the project accumulates, as far as it is seen.
    """

    heads: tuple[str, ...]
    causal: bool
    tokens: bool
    fixed: bool
    trainer: Spot
    steps: Evidence | None
    path: str
    place: Callable[[Spot], Place]


def uses(module: Module, project: Project) -> Uses | None:
    """What a file uses, or None where it hands no library head to a Trainer, or patches the library."""
    source = module.source
    trainer = next((m for m in _TRAINERS.finditer(source) if not _is_other(m[1], module, project)), None)
    if trainer is None or "transformers" not in source or _PATCHES.search(source) is not None:
        return None
    libraries = {base for base, _ in module.imports().values()}
    if not any(base.partition(".")[0] in {"transformers", "trl"} for base in libraries):
        return None
    heads = library_heads(module)
    if not heads:
        return None
    accumulates = _STEPS.search(source)
    return Uses(
        heads=heads,
        causal=all(re.search(CAUSAL_HEADS, name) for name in heads),
        tokens=any(re.search(COUNTED_HEADS, name) for name in heads),
        fixed=Surroundings([module]).fixed_here(),
        trainer=_spot(module, trainer),
        steps=_steps(module, project)
        if accumulates is None
        else Evidence(_spot(module, accumulates), "accumulates here"),
        path=module.path,
        place=module.place,
    )


def library_heads(module: Module) -> tuple[str, ...]:
    """The classes of Transformers with a default loss that a file imports and names."""
    named = sorted(set(_CLASS.findall(module.source)))
    return tuple(name for name in named if (module.imported(name) or _NOWHERE)[0].startswith("transformers"))


def _is_other(name: str, module: Module, project: Project) -> bool:
    """Whether a Trainer is another library's, or the project's own and made of nothing."""
    base = (module.imported(name) or _NOWHERE)[0]
    if base.partition(".")[0] in _OTHERS:
        return True
    names = Names(project, module)
    found = names.lookup(module, name)
    if not isinstance(found, ClassRef):
        return False
    libraries = [parent.path for parent in names.lineage(found) if isinstance(parent, External)]
    return not any(path.endswith("Trainer") for path in libraries)


def _steps(module: Module, project: Project) -> Evidence | None:
    """Where the project says how many steps, unless the file makes all of its own arguments without any."""
    made = list(_arguments(module))
    if made and not any(keyword.arg in {None, _STEPS_KEY} for call in made for keyword in call.keywords):
        return None
    outside = (s for s in project.settings(module.path) if s.key == _STEPS_KEY and s.value != 1)
    return next((s.where for s in outside), None)


def _arguments(module: Module) -> Iterator[ast.Call]:
    """The calls that make a Trainer's arguments."""
    for statement in module.statements():
        for node in ast.walk(statement):
            match node:
                case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if _ARGUMENTS.search(name):
                    yield node
                case _:
                    pass


def _spot(module: Module, match: re.Match[str]) -> Spot:
    start = module.source.rfind("\n", 0, match.start()) + 1
    row = module.source.count("\n", 0, match.start()) + 1
    column = len(module.source[start : match.start()].encode())
    return Spot(module.path, row, column, row, column + len(match[0].encode()))
