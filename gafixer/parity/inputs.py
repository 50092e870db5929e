"""Inputs that a forward asks for, by the names of its arguments and the sizes in its configuration."""

from __future__ import annotations

import enum
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from gafixer.parity.shrink import is_config
from gafixer.parity.sizes import LENGTH, VOCABULARY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["IGNORED", "Draw", "Feed", "Style", "number", "text"]

IGNORED = -100
_FIRST, _LAST = 10, 80  # ids drawn as text; markers lie outside
_REGIONS = 4  # of an image, where a detector's features go in
_SAMPLES = 8000  # of a raw waveform: about 24 frames of a wav2vec front end


class Style(enum.Enum):
    """Ways to feed a model whose signature leaves a choice; the first that runs is taken."""

    PLAIN = enum.auto()
    CHANNELS_FIRST = enum.auto()
    WITH_IMAGES = enum.auto()


@dataclass(frozen=True, slots=True)
class Feed:
    """How a model is fed: `marks` tokens at the head of each row stand for what an image, a sound or a film became."""

    style: Style = Style.PLAIN
    kind: str = "image"
    marks: int = 0


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


def _vocabulary(config: Any) -> int:
    sizes = [getattr(part, "vocab_size", None) for part in _configs(config)]
    return min((size for size in sizes if isinstance(size, int) and size > _LAST // 4), default=VOCABULARY)


def _token(config: Any, name: str, vocabulary: int) -> int | None:
    for part in _configs(config):
        value = getattr(part, name, None)
        if isinstance(value, int) and 0 <= value < vocabulary:
            return value
    return None


def text(config: Any, lengths: tuple[int, ...], generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids (rows, LENGTH), right-padded to the lengths and closed by the end token, and their attention mask."""
    vocabulary = _vocabulary(config)
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
    feed: Feed = Feed()

    @property
    def style(self) -> Style:
        """The way that the signature leaves a choice of."""
        return self.feed.style

    @property
    def rows(self) -> int:
        """Samples of the batch."""
        return len(self.lengths)

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The forward's arguments."""
        return inspect.signature(type(self.model).forward).parameters

    @property
    def main(self) -> str:
        """The input that the class calls its main one."""
        return str(getattr(self.model, "main_input_name", "input_ids"))

    def random(self, *shape: int) -> torch.Tensor:
        """Normal noise."""
        return torch.randn(*shape, generator=self.generator)

    def choose(self, kinds: int, *shape: int) -> torch.Tensor:
        """Whole numbers below `kinds`."""
        return torch.randint(0, kinds, shape, generator=self.generator)

    @property
    def image(self) -> tuple[int, int, int]:
        """Channels, height and width of the images that the model takes."""
        config = self.model.config
        size = number(config, "image_size", "img_size", "input_size", default=64)
        return number(config, "num_channels", "in_channels", "in_chans", default=3), size, size

    def named(self, name: str) -> Any:
        """The input of that name; None where nothing is known of it."""
        config = self.model.config
        match name:
            case "pixel_values" if "num_frames" in vars(config):
                return self.random(self.rows, number(config, "num_frames", default=2), *self.image)
            case "pixel_values":
                return self.random(self.rows, *self.image)
            case "pixel_values_videos":
                return self.random(self.rows, number(config, "frames_per_clip", "num_frames", default=2), *self.image)
            case "input_values" if "num_mel_bins" in vars(config):  # a spectrogram: frames × bins
                return self.random(
                    self.rows, number(config, "max_length", default=64), number(config, "num_mel_bins", default=80)
                )
            case "input_values":
                return self.random(self.rows, _SAMPLES)
            case "inputs" if self.style is Style.WITH_IMAGES:
                return self.random(self.rows, *self.image)
            case "inputs":
                return text(config, self.lengths, self.generator)[0]
            case "input_features":
                return self._features()
            case "visual_feats" | "visual_pos":
                return self.random(self.rows, _REGIONS, number(config, f"{name.removesuffix('s')}_dim", default=4))
            case "bbox":
                return torch.randint(0, 50, (self.rows, LENGTH, 4), generator=self.generator).sort(-1)[0]
            case _ if name.endswith("input_ids"):
                return text(config, self.lengths, self.generator)[0]
            case _:
                return None

    def _features(self) -> torch.Tensor:
        names = ("num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim", "feature_size", "input_dim")
        bins, frames = (
            number(self.model.config, *names, default=80),
            2 * number(self.model.config, "max_source_positions", default=32),
        )
        shape = (bins, frames) if self.style is Style.CHANNELS_FIRST else (frames, bins)
        return self.random(self.rows, *shape)

    def _wanted(self) -> set[str]:
        """Everything but text and targets: the main input, what has no default, and images where they are asked for."""
        wanted = {self.main, "bbox", "visual_feats", "visual_pos"} - {"input_ids"}
        if self.style is Style.WITH_IMAGES and self.main != "inputs":  # which is the image itself there
            wanted |= {"pixel_values"}
        for parameter in self.parameters.values():
            if parameter.default is parameter.empty and parameter.kind in (
                parameter.POSITIONAL_OR_KEYWORD,
                parameter.KEYWORD_ONLY,
            ):
                wanted.add(parameter.name)
        return wanted & self.parameters.keys() - {"self"}

    def _speaks(self, inputs: dict[str, Any]) -> bool:
        """Whether text goes in: it is the main input, or stands beside an image that a text is told of."""
        required = "input_ids" in self.parameters and self.parameters["input_ids"].default is inspect.Parameter.empty
        beside = "input_ids" in self.parameters and (not inputs or self.style is Style.WITH_IMAGES)
        return self.main == "input_ids" or required or beside

    def _marked(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Each row behind the tokens that stand for its image."""
        if not self.feed.marks:
            return ids, mask
        names = (f"{self.feed.kind}_token_id", f"{self.feed.kind}_token_index")
        token = number(self.model.config, *names, default=0)
        marks = ids.new_full((len(ids), self.feed.marks), token)
        return torch.cat([marks, ids], 1), torch.cat([torch.ones_like(marks), mask], 1)

    def batch(self) -> tuple[dict[str, Any], torch.Tensor, torch.Tensor]:
        """The inputs, with the token ids and the mask that token-level targets are made from."""
        ids, mask = self._marked(*text(self.model.config, self.lengths, self.generator))
        found = {name: self.named(name) for name in sorted(self._wanted() - {"input_ids"})}
        inputs = {name: value for name, value in found.items() if value is not None}
        if self._speaks(inputs):
            inputs = {"input_ids": ids, **inputs}
        if "attention_mask" in self.parameters and ("input_ids" in inputs or "inputs" in inputs):
            inputs["attention_mask"] = mask
            if "global_attention_mask" in self.parameters:  # by default it goes by separators in the text
                inputs["global_attention_mask"] = torch.zeros_like(mask).index_fill(1, torch.tensor([0]), 1)
        elif "attention_mask" in self.parameters and "input_features" in inputs:
            time = 2 if self.style is Style.CHANNELS_FIRST else 1
            inputs["attention_mask"] = torch.ones(self.rows, inputs["input_features"].shape[time], dtype=torch.long)
        return inputs, ids, mask
