"""Rewrites what the rules found: one plan per window in, new source out. libcst is imported when a plan is applied."""
