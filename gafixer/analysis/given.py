"""The number of steps that a framework was given: in the code, or in a file beside it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis.outside import Source
from gafixer.analysis.site import Evidence
from gafixer.analysis.spot import Spot
from gafixer.analysis.values import Const, Sym, Value
from gafixer.data.frameworks import COMPOSER_COUNT, COMPOSER_EXACT, COMPOSER_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gafixer.analysis.outside import Setting
    from gafixer.analysis.source import Module

__all__ = ["Given", "accelerate", "composer", "deepspeed", "lightning", "written"]

_LIGHTNING_KEY = "accumulate_grad_batches"
_STEPS_KEY = "gradient_accumulation_steps"
#: Keys of a DeepSpeed configuration. Two batch sizes make the number of steps a quotient; one of them leaves it at 1.
_BATCH_KEYS = frozenset({"train_batch_size", "train_micro_batch_size_per_gpu"})
_OTHER_KEYS = frozenset({"optimizer", "zero_optimization", "fp16", "bf16", "scheduler"})


@dataclass(frozen=True, slots=True)
class Given:
    """The number of steps (``Const(1)`` for no accumulation), and where it is said."""

    value: Value
    where: Evidence | None = None


def lightning(modules: Iterable[Module], settings: Iterable[Setting]) -> Given | None:
    """What `accumulate_grad_batches` is: of a Trainer in sight, else of one in the project. None: not said."""
    modules = list(modules)
    trainers = [found for module in modules for found in module.once(_trainers)]
    if trainers:
        return max(trainers, key=lambda found: found.value != Const(1))
    outside = [s for s in settings if s.key == _LIGHTNING_KEY]
    if outside:
        return _of(outside)
    for module in modules:
        found = module.once(_lightning_mention)
        if found is not None:
            return Given(Sym(_LIGHTNING_KEY), found)
    return None


def deepspeed(modules: Iterable[Module], settings: Iterable[Setting]) -> Given:
    """What `gradient_accumulation_steps` is for an engine: a dict in sight, an argument, or a JSON beside the code."""
    modules = list(modules)
    for module in modules:
        here = module.once(_configurations)
        if here:
            return max(here, key=lambda found: found.value != Const(1))
    spoken = next((found for module in modules if (found := module.once(_steps_mention)) is not None), None)
    outside = [s for s in settings if s.key == _STEPS_KEY]
    if outside and any(s.value != 1 for s in outside):
        return _of(outside)
    if spoken is not None:
        # It can be asked for: that every script at hand asks for 1 decides nothing.
        return Given(Sym(_STEPS_KEY), spoken)
    fixed = [s for s in outside if s.where.spot.path.endswith((".json", ".yaml", ".yml"))]
    if fixed or any(module.once(_is_plain) for module in modules):
        return Given(Const(1))
    return Given(Sym(_STEPS_KEY))


def accelerate(seen: Value | None, settings: Iterable[Setting]) -> Given | None:
    """What an Accelerator divides by: `seen` is what the code gives it; its configuration overrides that."""
    own = [s for s in settings if s.source is Source.ACCELERATE and s.key == _STEPS_KEY]
    outside = _of(own) if any(s.value != 1 for s in own) else None
    if seen is None or seen == Const(1):
        return outside
    return Given(seen, None if outside is None else outside.where)


def written(name: str, settings: Iterable[Setting]) -> Setting | None:
    """Where a number of steps that the code calls `name` is given: a file or a command before a default."""
    own = [s for s in settings if s.key == name.lower() and s.source is not Source.ACCELERATE]
    return max(own, key=lambda s: (s.value != 1, s.source is Source.FILE), default=None)


def composer(modules: Iterable[Module], settings: Iterable[Setting]) -> Given | None:
    """What splits a batch into microbatches. None: nothing does, or their shares are made exact for tokens."""
    modules = list(modules)
    if any(COMPOSER_EXACT in module.source for module in modules):
        return None
    told = [found for module in modules for found in module.once(_composer_trainers)]
    told += [
        Given(Sym(s.key), s.where)
        for s in settings
        if s.key == COMPOSER_SIZE or (s.key == COMPOSER_COUNT and s.value != 1)
    ]
    return next((given for given in told if given.value != Const(None)), None)


def _of(settings: list[Setting]) -> Given:
    """Of several files the one that accumulates: somebody starts it that way."""
    chosen = max(settings, key=lambda s: (s.value != 1, s.source is not Source.DEFAULT))
    value = Const(chosen.value) if chosen.value == 1 else Sym(chosen.key, default=Const(chosen.value))
    return Given(value, chosen.where)


def _trainers(module: Module) -> list[Given]:
    """``Trainer(accumulate_grad_batches=...)``, ``dict(accumulate_grad_batches=...)``."""
    return _keywords(module, (_LIGHTNING_KEY,))


def _composer_trainers(module: Module) -> list[Given]:
    """A size of microbatches makes several of a batch whatever it is; a number of them does unless it is 1."""
    sizes = _keywords(module, (COMPOSER_SIZE,))
    split = [Given(Sym(COMPOSER_SIZE), size.where) for size in sizes if size.value != Const(None)]
    return split + [found for found in _keywords(module, (COMPOSER_COUNT,)) if found.value != Const(1)]


def _keywords(module: Module, keys: Sequence[str]) -> list[Given]:
    if not any(key in module.source for key in keys):
        return []
    return [
        Given(_value(keyword.value, module), _evidence(module, keyword.value, f"{keyword.arg} is set here"))
        for statement in module.statements()
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute) and _is_maker(node.func)
        for keyword in node.keywords
        if keyword.arg in keys
    ]


def _is_maker(func: ast.expr) -> bool:
    name = func.id if isinstance(func, ast.Name) else getattr(func, "attr", "")
    return name.endswith("Trainer") or name in {"dict", "from_argparse_args"}


def _configurations(module: Module) -> list[Given]:
    """Dicts that give DeepSpeed a number, or an expression, for its steps."""
    values = (entries.get(_STEPS_KEY) for entries in module.once(_dicts))
    return [
        Given(_value(value, module), _evidence(module, value, f"{_STEPS_KEY} is set here"))
        for value in values
        if value is not None and not (isinstance(value, ast.Constant) and isinstance(value.value, str | None))
    ]


def _is_plain(module: Module) -> bool:
    """Whether a dict configures DeepSpeed by one batch size: the number of steps is 1 then."""
    return any(
        len(_BATCH_KEYS & entries.keys()) == 1 and _OTHER_KEYS & entries.keys() for entries in module.once(_dicts)
    ) and not re.search(r"\[[\"'](?:train_batch_size|train_micro_batch_size_per_gpu)[\"']\]\s*=", module.source)


def _dicts(module: Module) -> list[dict[object, ast.expr]]:
    if not any(f"{quote}{key}{quote}" in module.source for key in (_STEPS_KEY, *_BATCH_KEYS) for quote in "\"'"):
        return []
    return [
        {key.value: value for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)}
        for statement in module.statements()
        for node in ast.walk(statement)
        if isinstance(node, ast.Dict)
    ]


def _value(node: ast.expr, module: Module) -> Value:
    """A literal, a name that is only ever one literal, or what the code says."""
    if isinstance(node, ast.Constant):
        return Const(node.value)
    if isinstance(node, ast.Name):
        given = [value for statement in module.statements() for value in _assigned(statement, node.id)]
        if (
            given
            and all(isinstance(value, ast.Constant) for value in given)
            and len({ast.unparse(v) for v in given}) == 1
        ):
            return _value(given[0], module)
    return Sym(ast.unparse(node))


def _assigned(statement: ast.stmt, name: str) -> Iterator[ast.expr]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            yield node.value


def _evidence(module: Module, node: ast.expr, message: str) -> Evidence:
    spot = Spot(module.path, node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0)
    return Evidence(spot, message)


def _lightning_mention(module: Module) -> Evidence | None:
    return _mention(module, _LIGHTNING_KEY)


def _steps_mention(module: Module) -> Evidence | None:
    return _mention(module, _STEPS_KEY)


def _mention(module: Module, key: str) -> Evidence | None:
    """A line of code that speaks of the key, comments left out."""
    for match in re.finditer(rf"\b{key}\b", module.source):
        start = module.source.rfind("\n", 0, match.start()) + 1
        if "#" in module.source[start : match.start()]:
            continue
        row = module.source.count("\n", 0, match.start()) + 1
        column = len(module.source[start : match.start()].encode())
        return Evidence(Spot(module.path, row, column, row, column + len(key)), f"{key} is spoken of here")
    return None
