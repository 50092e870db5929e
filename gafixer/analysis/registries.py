"""Classes and functions that a registry is told of: by a decorator, a call or an entry, anywhere in a project."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Told", "entering", "index", "told"]

#: ``@LOSSES.register_module()``, ``@register_loss("ce")``, ``@LOSSES("ce")``: up to what it stands on.
_DECORATED = re.compile(
    r"@(?P<by>[\w.]+)[ \t]*(?:\((?P<given>(?:[^()]|\([^()]*\))*)\))?[ \t]*(?:#.*)?\n"
    r"(?:^@.*\n)*^(?:class|def)[ \t]+(?P<name>\w+)",
    re.MULTILINE,
)
#: ``LOSSES.register("ce", Loss)``, ``register_loss("ce", Loss)``.
_CALLED = re.compile(r"^(?P<by>[\w.]*regist\w*)\([^()\n]*?(?P<name>[A-Za-z_]\w*)\)[ \t]*(?:#.*)?$", re.MULTILINE)
#: ``LOSSES["ce"] = Loss``
_ENTERED = re.compile(r"^(?P<by>\w+)\[[^\]\n]+\][ \t]*=[ \t]*(?P<name>[A-Za-z_]\w*)[ \t]*(?:#.*)?$", re.MULTILINE)
_FUNCTION = re.compile(r"def[ \t]+(\w+)\(")
#: What a function does that enters what it is given, or what it decorates.
_ENTERS = re.compile(r"[ \t]+(\w+)(?:\[[^\]]+\][ \t]*=(?!=)|\.regist\w*\()")
_REGISTERS = re.compile(r"regist", re.IGNORECASE)


_File = TypeVar("_File")


@dataclass(frozen=True, slots=True)
class Told:
    """A class or function that a module tells a registry of, itself or through a function: the `registrar`."""

    registrar: str
    name: str


def told(source: str) -> Iterator[Told]:
    """All that a module tells."""
    decorated = (match for at in _decorators(source) if (match := _DECORATED.match(source, at)) is not None)
    called = _CALLED.finditer(source) if "regist" in source else ()
    for match in (*decorated, *called):
        if (registrar := _registrar(match["by"])) is not None:
            yield Told(registrar, match["name"])
    for match in _ENTERED.finditer(source) if "] =" in source or "]=" in source else ():
        yield Told(match["by"], match["name"])


def _decorators(source: str) -> Iterator[int]:
    """Where decorators stand at the margin."""
    if source.startswith("@"):
        yield 0
    at = source.find("\n@")
    while at != -1:
        yield at + 1
        at = source.find("\n@", at + 1)


def entering(source: str) -> Iterator[tuple[str, str]]:
    """Each function of a module that enters into a registry what it is given, with that registry's name."""
    if "] =" not in source and "regist" not in source:
        return
    function = None
    for line in source.splitlines():
        if (named := _FUNCTION.match(line)) is not None:
            function = named[1]
        elif line[:1] not in " \t":
            function = None
        elif function is not None and (entered := _ENTERS.match(line)) is not None:
            yield function, entered[1]


def index(sources: Iterable[tuple[_File, str]]) -> dict[str, list[tuple[_File, Told]]]:
    """The name of each registry, and of each function that registers -> what it is told of, and where."""
    found: dict[str, list[tuple[_File, Told]]] = {}
    ways: dict[str, set[str]] = {}
    for file, source in sources:
        for one in told(source):
            found.setdefault(one.registrar, []).append((file, one))
        for function, registry in entering(source):
            ways.setdefault(registry, set()).add(function)
    for registry, functions in ways.items():
        for function in sorted(functions - {registry}):
            found.setdefault(registry, []).extend(found.get(function, ()))
    return found


def _registrar(spelled: str) -> str | None:
    """The registry that a decorator or call speaks to, the function itself where it is a plain one."""
    parts = spelled.split(".")
    if len(parts) > 1 and _REGISTERS.search(parts[-1]):
        return parts[-2]
    return parts[-1] if _REGISTERS.search(parts[-1]) or parts[-1].isupper() else None
