"""Apply and revert. Neither torch nor transformers is imported here: a patch is put on when its target's module is."""

from __future__ import annotations

import logging
import re
import sys
import threading
from typing import TYPE_CHECKING, Any

from gafixer.patch.catalog import GROUPS
from gafixer.patch.hooks import ImportWatch
from gafixer.patch.messages import logger
from gafixer.patch.records import Group, Patch, State, Status, load

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["apply", "is_applied", "revert", "status"]

_ABSENT: Any = object()
OLDEST = (4, 45)

_lock = threading.RLock()
_wanted = False
_standing: dict[Patch, Status] = {}
_undo: list[tuple[Any, Patch, Any, Any]] = []
"""Owner, patch, what its `__dict__` held before, what was put there."""


def apply() -> None:
    """Patch what is imported now and what will be. Twice is once."""
    global _wanted
    with _lock:
        if not _wanted:
            _wanted = True
            _watch.start()


def revert() -> None:
    """Put back every attribute, the very object that was there."""
    global _wanted
    with _lock:
        _wanted = False
        _watch.stop()
        while _undo:
            owner, patch, before, ours = _undo.pop()
            if vars(owner).get(patch.name) is not ours:
                _stand(patch, State.STOOD_DOWN, "something else was put over it, and stays", logging.WARNING)
                continue
            if before is _ABSENT:
                delattr(owner, patch.name)
            else:
                setattr(owner, patch.name, before)
            _stand(patch, State.REVERTED)
        _standing.clear()


def status() -> tuple[Status, ...]:
    """Where every patch stands."""
    rest = State.WAITING if _wanted else State.REVERTED
    patches = [patch for group in GROUPS for patch in group.patches]
    return tuple(_standing.get(patch, Status(patch, rest)) for patch in patches)


def is_applied() -> bool:
    """Whether patches are on, or will be once their modules are imported."""
    return _wanted


def _on_import(module: ModuleType) -> None:
    with _lock:
        for group in GROUPS:
            if group.module == module.__name__ and _wanted:
                _put_on(group, module)


def _put_on(group: Group, module: ModuleType) -> None:
    """All patches of a group, or none."""
    version = _version()
    patches = [patch for patch in group.patches if patch.covers(version)]
    for patch in group.patches:
        if patch not in patches:
            _stand(patch, State.STOOD_DOWN, "this release has no such target", logging.DEBUG)
    owners = {patch: module if patch.owner is None else getattr(module, patch.owner, None) for patch in patches}
    objections = [_objection(patch, owners[patch], version) for patch in patches]
    if any(objections):
        reasons = "; ".join(objection for objection in objections if objection)
        for patch in patches:
            _stand(patch, State.STOOD_DOWN, reasons, logging.DEBUG)
        logger.warning("%s stays as it is: %s", group.module, reasons)
        return
    for patch, owner in owners.items():
        assert owner is not None
        ours = load(patch.wrapper)(getattr(owner, patch.name))
        _undo.append((owner, patch, vars(owner).get(patch.name, _ABSENT), ours))
        setattr(owner, patch.name, ours)
        _stand(patch, State.APPLIED)


def _objection(patch: Patch, owner: object, version: tuple[int, int]) -> str | None:
    if version < OLDEST:
        return f"transformers {'.'.join(map(str, version))} is older than {'.'.join(map(str, OLDEST))}"
    return f"{patch.target} is gone" if owner is None else patch.objection(owner)


def _version() -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", getattr(sys.modules["transformers"], "__version__", ""))
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _stand(patch: Patch, state: State, note: str = "", level: int = logging.INFO) -> None:
    _standing[patch] = Status(patch, state, note)
    logger.log(level, "%s %s: %s", state.value, patch.target, note or patch.reason)


_watch = ImportWatch([group.module for group in GROUPS], _on_import)
