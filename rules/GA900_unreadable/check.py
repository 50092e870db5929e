"""GA900: source that is no Python. Raised by the engine: such a file has no sites."""

from __future__ import annotations

from gafixer.rulebook import Rule

RULE = Rule("GA900", "unreadable", "The file does not decode or is no valid Python.")
