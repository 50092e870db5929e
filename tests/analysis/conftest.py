"""Property tests here are many and cheap; a shared, busy machine must not fail them for being slow."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("analysis", max_examples=60, deadline=None)
settings.load_profile("analysis")
