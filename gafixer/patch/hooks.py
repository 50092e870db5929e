"""Be called once a module has been imported.

Wrapt has this too, but importing wrapt takes longer than our whole budget; so does a good part of it `importlib.abc`,
whose classes the import system doesn't ask for.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType

__all__ = ["ImportWatch"]


class ImportWatch:
    """Calls `then(module)` after each of `names` was imported; at once for those that are.

    `start` and `stop` may be called again; after `stop` the import system is as it was.
    """

    def __init__(self, names: Sequence[str], then: Callable[[ModuleType], None]) -> None:
        self._names = tuple(names)
        self._then = then

    def start(self) -> None:
        """Watch from now on."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        for name in self._names:
            module = sys.modules.get(name)
            if module is not None and not getattr(module.__spec__, "_initializing", False):
                self._then(module)

    def stop(self) -> None:
        """Watch no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """The spec that the other finders give, its loader followed by the call."""
        if name not in self._names:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        for finder in others:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = cast("Loader", _Followed(spec.loader, self._then))
                return spec
        return None


class _Followed:
    """A loader that steps back once its module is executed, and calls."""

    def __init__(self, loader: Loader, then: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._then = then

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._then(module)
