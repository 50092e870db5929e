"""What a user can set, from `[tool.gafixer]` in pyproject.toml or from gafixer.toml, and from the command line."""

from __future__ import annotations

from gafixer.settings.hierarchy import Hierarchy
from gafixer.settings.model import Below, Helpers, Layer, PerFile, Settings, SettingsError, Strategy, resolve
from gafixer.settings.sources import configures, inline, load

__all__ = [
    "Below",
    "Helpers",
    "Hierarchy",
    "Layer",
    "PerFile",
    "Settings",
    "SettingsError",
    "Strategy",
    "configures",
    "inline",
    "load",
    "resolve",
]
