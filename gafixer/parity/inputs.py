"""Inputs that a forward asks for, by the names of its arguments and the sizes in its configuration."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from gafixer.parity.shrink import is_config
from gafixer.parity.sizes import VOCABULARY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["IGNORED", "LENGTH", "Draw", "number", "text"]

LENGTH = 16  # tokens per row
IGNORED = -100
_FIRST, _LAST = 10, 80  # ids drawn as text; markers lie outside


def _configs(config: Any) -> Iterator[Any]:
    yield config
    for part in vars(config).values():
        if is_config(part):
            yield from _configs(part)


def number(config: Any, *names: str, default: int) -> int:
    """The first of these attributes that is a positive number, here or in a nested configuration."""
    for name in names:
        for part in _configs(config):
            value = getattr(part, name, None)
            value = value[0] if isinstance(value, (list, tuple)) and value else value
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return default


def _token(config: Any, name: str, vocabulary: int) -> int | None:
    for part in _configs(config):
        value = getattr(part, name, None)
        if isinstance(value, int) and 0 <= value < vocabulary:
            return value
    return None


def text(config: Any, lengths: tuple[int, ...], generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids (rows, LENGTH), right-padded to the lengths and closed by the end token, and their attention mask."""
    vocabulary = min(
        (v for part in _configs(config) if isinstance(v := getattr(part, "vocab_size", None), int) and v > 20),
        default=VOCABULARY,
    )
    pad, end = _token(config, "pad_token_id", vocabulary) or 0, _token(config, "eos_token_id", vocabulary)
    ids = torch.full((len(lengths), LENGTH), pad)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.randint(_FIRST, min(_LAST, vocabulary), (length,), generator=generator)
        mask[row, :length] = 1
        if end is not None:
            ids[row, length - 1] = end
    return ids, mask


@dataclass(frozen=True, slots=True)
class Draw:
    """Draws the inputs of one batch for a model: `lengths` are the tokens of each row."""

    model: Any
    lengths: tuple[int, ...]
    generator: torch.Generator

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The forward's arguments."""
        return inspect.signature(type(self.model).forward).parameters

    @property
    def main(self) -> str:
        """The input that the class calls its main one."""
        return getattr(self.model, "main_input_name", "input_ids")

    def _random(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.generator)

    def _image(self) -> tuple[int, int, int]:
        config = self.model.config
        size = number(config, "image_size", "img_size", "input_size", default=64)
        return number(config, "num_channels", "in_channels", "in_chans", default=3), size, size

    def named(self, name: str) -> Any:
        """The input of that name; None where nothing is known of it."""
        config, rows = self.model.config, len(self.lengths)
        match name:
            case "pixel_values":
                return self._random(rows, *self._image())
            case "pixel_values_videos":
                return self._random(rows, number(config, "num_frames", "frames_per_clip", default=2), *self._image())
            case "input_values":
                return self._random(rows, 1600)
            case "input_features":
                bins = number(config, "num_mel_bins", "input_feat_per_channel", "feature_size", default=80)
                frames = 2 * number(config, "max_source_positions", default=32)
                # Encoders with a fixed number of positions want channels first.
                first = getattr(config, "max_source_positions", None) is not None and self._convolves()
                return self._random(rows, bins, frames) if first else self._random(rows, frames, bins)
            case "bbox":
                return torch.randint(0, 50, (rows, LENGTH, 4), generator=self.generator).sort(-1)[0]
            case _:
                return None

    def _convolves(self) -> bool:
        bins = number(self.model.config, "num_mel_bins", default=80)
        return any(isinstance(m, torch.nn.Conv1d) and m.in_channels == bins for m in self.model.modules())

    def required(self) -> dict[str, Any]:
        """Everything but text and targets: the main input and what has no default."""
        wanted = {self.main, "bbox"} | {
            p.name
            for p in self.parameters.values()
            if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name != "self"
        }
        found = {name: self.named(name) for name in sorted(wanted) if name in self.parameters}
        return {name: value for name, value in found.items() if value is not None}

    def batch(self) -> tuple[dict[str, Any], torch.Tensor, torch.Tensor]:
        """The inputs, with the token ids and the mask that token-level targets are made from."""
        ids, mask = text(self.model.config, self.lengths, self.generator)
        inputs = self.required()
        if self.main == "input_ids" or ("input_ids" in self.parameters and not inputs):
            inputs = {"input_ids": ids, **inputs}
            if "attention_mask" in self.parameters:
                inputs["attention_mask"] = mask
        return inputs, ids, mask
