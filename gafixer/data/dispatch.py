"""How code picks a class or function by a name that it is given, as data."""

from __future__ import annotations

import re

__all__ = ["BUILDS", "CONFIGURATIONS", "INSTANTIATES", "LOSSY", "TAKES_REGISTRY", "TARGET", "UNSAID"]

#: Files that say what is to be made of a key: Hydra's, torchtune's.
CONFIGURATIONS = (".yaml", ".yml")
#: The key that holds the dotted name of what is made.
TARGET = re.compile(r"_(?:target|component)_")
#: Functions that make it, given the part of the configuration that has that key.
INSTANTIATES = frozenset({"instantiate"})
#: Keys beside it that are no arguments.
UNSAID = re.compile(r"_\w+_")

#: Methods of a registry that make an object of what is registered.
BUILDS = frozenset({"build", "create", "make", "instantiate"})
#: Functions that do, given the registry.
TAKES_REGISTRY = frozenset({"build_from_cfg"})
#: What a class or function that is a loss is called.
LOSSY = re.compile(r"loss|criteri|entropy|nll|objective|(?-i:CE)(?![a-z])|(?-i:BCE)", re.IGNORECASE)
