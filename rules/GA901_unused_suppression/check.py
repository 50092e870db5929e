"""GA901: a comment that silences nothing. Raised by the front: only it knows what all the other rules found."""

from __future__ import annotations

from gafixer.rulebook import Rule

RULE = Rule("GA901", "unused-suppression", "A comment silences a rule that finds nothing there.")
