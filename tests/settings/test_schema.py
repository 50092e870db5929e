"""The JSON schema and the reader of settings are made of one table: an independent validator says the same."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from gafixer import settings
from gafixer.settings import SettingsError
from gafixer.settings.keys import KEYS, LOSS_KEYS
from gafixer.settings.schema import render
from gafixer.settings.toml import parse
from tests.settings.test_sources import FULL, MISTAKES

#: What a schema can't tell: what is a version, which file is there.
BEYOND = ("target-transformers", "extend")


@pytest.fixture(name="validator")
def _validator() -> jsonschema.Draft202012Validator:
    """The schema for the rules of these tests, itself checked."""
    schema = json.loads(render())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def _table(text: str) -> Any:
    document = parse(text)
    return document.get("tool", {"gafixer": document}).get("gafixer")


def test_right_settings(validator: jsonschema.Draft202012Validator) -> None:
    """Every key, and nothing at all."""
    validator.validate(_table(FULL))
    validator.validate({})


@pytest.mark.parametrize("text", [text for text, said in MISTAKES if said and not any(key in text for key in BEYOND)])
def test_wrong_settings(validator: jsonschema.Draft202012Validator, text: str) -> None:
    """What the reader refuses, the schema refuses."""
    with pytest.raises(SettingsError):
        settings.inline(_inline(text), "/")
    try:
        table = _table(text)
    except ValueError:  # no TOML
        return
    assert not validator.is_valid(table)


def _inline(text: str) -> str:
    return text.replace("[tool.gafixer.", "[").replace("[tool.gafixer]\n", "").replace("tool.gafixer.", "")


def test_every_key_is_described() -> None:
    """In words, for who completes it in an editor."""
    schema = json.loads(render())
    assert list(schema["properties"]) == list(KEYS)
    assert list(schema["$defs"]["loss"]["properties"]) == list(LOSS_KEYS)
    assert all(entry["description"] for entry in schema["properties"].values())
