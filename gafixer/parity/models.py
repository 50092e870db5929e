"""Tiny random models of the installed release's own classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gafixer.parity.shrink import shrink, sub_configs
from gafixer.parity.sizes import PLANS, Plan
from gafixer.parity.tasks import Problem, Task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.parity.heads import Head

__all__ = ["LABELS", "BuildError", "TinyModel", "builds"]

LABELS = 3  # classes of a tiny classifier
_MOST_PARAMETERS = 60_000_000
_LARGEST_START = 1e4  # a parameter beyond this was never initialised
_LEAST_SPREAD = 1e-4  # a matrix flatter than this hides its inputs
_PYRAMID = 4  # levels that a segmenter reads from a backbone which gives out one by default
_CLASSIFIERS = frozenset(
    {
        Task.SEQUENCE_CLASSIFICATION,
        Task.TOKEN_CLASSIFICATION,
        Task.IMAGE_CLASSIFICATION,
        Task.VIDEO_CLASSIFICATION,
        Task.AUDIO_CLASSIFICATION,
        Task.AUDIO_FRAME_CLASSIFICATION,
        Task.XVECTOR,
        Task.SEMANTIC_SEGMENTATION,
    }
)


class BuildError(Exception):
    """No plan gave a model; the message says why the first and the last one failed."""


@dataclass(frozen=True, slots=True)
class TinyModel:
    """A tiny random model in training mode, without dropout, and the plan that it was made by."""

    head: Head
    model: Any
    plan: Plan

    @property
    def config(self) -> Any:
        """The model's configuration."""
        return self.model.config

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The parameters that are trained, in the model's order."""
        return [p for p in self.model.parameters() if p.requires_grad]


def _set_quietly(config: Any, name: str, value: object) -> None:
    """Set an attribute that a configuration may have as a read-only property."""
    if not isinstance(getattr(type(config), name, None), property):
        setattr(config, name, value)


def _config(head: Head, plan: Plan, problem: Problem | None) -> Any:
    config_class = head.load().config_class
    if config_class is None:
        raise TypeError(f"{head.name} names no configuration class")
    fixed: dict[str, object] = {}
    if head.task in _CLASSIFIERS:
        fixed["num_labels"] = 1 if problem is Problem.REGRESSION else LABELS
    config = shrink(config_class, plan, **fixed)
    if (
        head.task is Task.CAUSAL_LM
        and hasattr(config, "is_decoder")
        and not getattr(config, "is_encoder_decoder", False)
    ):
        config.is_decoder = True
    if head.task is Task.SEMANTIC_SEGMENTATION and len(getattr(config, "out_indices", None) or ()) == 1:
        config.out_indices = list(range(_PYRAMID))
    if hasattr(config, "ctc_loss_reduction"):
        config.ctc_loss_reduction = "mean"  # the default is a sum, which no division by items belongs to
    for part in (config, *sub_configs(config).values()):
        _set_quietly(part, "_attn_implementation", "eager")
        _set_quietly(part, "use_cache", False)
        _set_quietly(part, "return_dict", True)
    return config


def _calm(model: nn.Module) -> None:
    """Take out what would make two forwards of the same batch differ, and fill what was left uninitialised."""
    for module in model.modules():
        if isinstance(module, (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)):
            module.p = 0.0
        for name, value in vars(module).items():
            if isinstance(value, float) and any(word in name for word in ("drop", "jitter")):
                setattr(module, name, 0.0)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in (p for p in model.parameters() if p.numel()):
            wild = not torch.isfinite(parameter).all() or parameter.abs().max() > _LARGEST_START
            flat = parameter.dim() > 1 and parameter.numel() > 1 and parameter.float().std() < _LEAST_SPREAD
            if parameter.is_floating_point() and (wild or flat):
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.05)


def _build(head: Head, plan: Plan, problem: Problem | None, dtype: torch.dtype) -> Any:
    model_class = head.load()
    config = _config(head, plan, problem)
    if plan.keep_widths:
        with torch.device("meta"):
            size = sum(p.numel() for p in model_class(_config(head, plan, problem)).parameters())
        if size > _MOST_PARAMETERS:
            raise ValueError(f"{size / 1e6:.0f} M parameters are too many")
    torch.manual_seed(0)
    model = model_class(config)
    for part in {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}.values():
        if problem is not None:
            _set_quietly(part, "problem_type", problem.value)
    _calm(model)
    return model.to(dtype).train()


def builds(head: Head, problem: Problem | None = None, dtype: torch.dtype = torch.float32) -> Iterator[TinyModel]:
    """The head's tiny models, one per plan that builds, smallest first.

    Raises:
        BuildError: at the end, where no plan built.
        ImportError: where a library is missing.
    """
    failures = []
    for plan in PLANS:
        try:
            model = _build(head, plan, problem, dtype)
        except ImportError:  # a library is missing, whatever the size
            raise
        except Exception as error:  # any class may refuse any size in its own way; the reason is reported
            failures.append(f"{type(error).__name__}: {str(error)[:200]}")
            continue
        yield TinyModel(head, model, plan)
    if len(failures) == len(PLANS):
        raise BuildError(" / ".join(dict.fromkeys((failures[0], failures[-1]))))
