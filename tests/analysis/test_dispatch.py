"""Losses that code picks by a name: all that the project could mean, and no more than that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gafixer import engine
from gafixer.analysis import registries, targets
from gafixer.analysis.checkout import FileProject
from gafixer.analysis.values import Const, Sym
from tests.analysis.scanning import ALL, expected, loud, scan

if TYPE_CHECKING:
    from pathlib import Path

    from gafixer.findings import Finding

LOOP = """
import functools
import torch
from torch import nn
{top}

def train(args, model, optimizer, loader):
    criterion = {made}
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x).flatten(0, 1), y.flatten())
        (loss / args.steps).backward()  # {mark}
        if (i + 1) % args.steps == 0:
            optimizer.step()
            optimizer.zero_grad()
"""

CE = "class CELoss(nn.Module):\n    def forward(self, o, t):\n        return nn.functional.cross_entropy(o, t, {})\n"
MEAN = CE.format("ignore_index=0")
NLL = MEAN.replace("CELoss", "NLLLoss").replace("cross_entropy", "nll_loss")
SUM = NLL.replace("ignore_index=0", "ignore_index=0, reduction='sum'")
OTHER = "class Encoder(nn.Module):\n    def forward(self, x):\n        return x\n"

REGISTER = (
    "LOSSES = {}\ndef register(name):\n    def wrap(made):\n        LOSSES[name] = made\n        return made\n"
    "    return wrap\n"
)
REGISTRY = (
    "class Registry:\n    def __init__(self):\n        self._made = {}\n    def register(self, made):\n"
    "        self._made[made.__name__] = made\n        return made\n    def build(self, config):\n"
    "        return self._made[config.pop('type')](**config)\nLOSSES = Registry()\n"
)

#: What stands above the loop, how the criterion is made, and the other modules of the project.
PICKED = {
    "get of a dict": (
        "MADE = {'ce': nn.CrossEntropyLoss, 'nll': nn.NLLLoss}",
        "MADE.get(args.loss)(ignore_index=0)",
        {},
    ),
    "getattr of a module": (
        "import losses",
        "getattr(losses, args.loss)()",
        {"losses": f"from torch import nn\n{MEAN}"},
    ),
    "getattr of a package": (
        "import losses",
        "getattr(losses, args.loss)()",
        {"losses": "from ce import *", "ce": f"from torch import nn\n{MEAN}{OTHER}"},
    ),
    "globals": (MEAN, "globals()[args.loss]()", {}),
    "a function that registers": (
        f"{REGISTER}\n@register('ce')\n{MEAN}\n@register('nll')\n{NLL}",
        "LOSSES[args.loss]()",
        {},
    ),
    "a registry": (f"{REGISTRY}\n@LOSSES.register\n{MEAN}", "LOSSES.build(args.loss)", {}),
    "a registry elsewhere": (
        "from registry import LOSSES\nimport losses",
        "LOSSES.build(args.loss)",
        {
            "registry": REGISTRY,
            "losses": f"from torch import nn\nfrom registry import LOSSES\n@LOSSES.register\n{MEAN}",
        },
    ),
    "a registry of a module": (
        "import registry",
        "registry.LOSSES.build(args.loss)",
        {
            "registry": REGISTRY,
            "losses": f"from torch import nn\nimport registry\n@registry.LOSSES.register\n{MEAN}",
        },
    ),
    "a library's registry": (
        f"from mmengine import Registry, build_from_cfg\nLOSSES = Registry('loss')\n@LOSSES.register_module()\n{MEAN}",
        "build_from_cfg(args.loss, LOSSES)",
        {},
    ),
    "entries": (
        f"{MEAN}\n{NLL}\nLOSSES = {{}}\nLOSSES['ce'] = CELoss\nLOSSES['nll'] = NLLLoss",
        "LOSSES[args.loss]()",
        {},
    ),
    "a call that registers": (
        f"{MEAN}\n{REGISTRY}\nLOSSES.register(CELoss)",
        "LOSSES.build(args.loss)",
        {},
    ),
}


def _scan(top: str, made: str, mark: str, modules: dict[str, str]) -> tuple[str, tuple[Finding, ...]]:
    source = LOOP.format(top=top, made=made, mark=mark)
    return source, scan(source, **modules)


@pytest.mark.parametrize(("top", "made", "modules"), PICKED.values(), ids=PICKED)
def test_candidates_that_agree(top: str, made: str, modules: dict[str, str]) -> None:
    """Every one of them is a mean over items that vary."""
    source, found = _scan(top, made, "GA101 error", modules)
    assert loud(found) == expected(source)


@pytest.mark.parametrize(
    ("top", "made", "modules"),
    [
        (f"{REGISTER}\n@register('ce')\n{CE.format('reduction=chr(0)')}", "LOSSES[args.loss]()", {}),
        # Another registry of the same name, which this module does not see.
        (REGISTRY, "LOSSES.build(args.loss)", {"other": f"from torch import nn\n{REGISTRY}\n@LOSSES.register\n{MEAN}"}),
        (REGISTER, "LOSSES[args.loss]()", {"other": f"{REGISTER}\n@register('ce')\n{MEAN}"}),
    ],
)
def test_candidates_that_say_nothing(top: str, made: str, modules: dict[str, str]) -> None:
    """A reduction that isn't known, another registry's losses."""
    _, found = _scan(top, made, "", modules)
    assert "GA101" not in {code for _, code, _ in loud(found)}


def test_a_sum_that_is_registered() -> None:
    _, found = _scan(f"{REGISTRY}\n@LOSSES.register\n{SUM}", "LOSSES.build(args.loss)", "", {})
    assert [f.message.partition(" is ")[0] for f in found if f.code == "GA101"] == ["a sum over scored tokens"]


def test_what_a_module_tells() -> None:
    source = "@LOSSES.register_module(name='a')\n@final\nclass A: ...\n@register_loss\ndef b(): ...\nLOSSES['c'] = c\n"
    source += "registry.register('d', D)\n@property\ndef e(): ...\n"
    assert {(t.registrar, t.name) for t in registries.told(source)} == {
        ("LOSSES", "A"),
        ("register_loss", "b"),
        ("LOSSES", "c"),
        ("registry", "D"),
    }


def test_each_of_several_decorators_tells() -> None:
    """The first line of a file included."""
    source = "@LOSSES.register\n@MODELS.register('it')\nclass A: pass\n\n@dataclass\n@register_loss\ndef f(): pass\n"
    told = [(t.registrar, t.name) for t in registries.told(source)]
    assert told == [("LOSSES", "A"), ("MODELS", "A"), ("register_loss", "f")]


def test_functions_that_enter() -> None:
    source = REGISTER + "def add(x):\n    if x == LOSSES['a']:\n        return x\nLOSSES['b'] = 1\n"
    assert list(registries.entering(source)) == [("register", "LOSSES")]


CONFIGURATION = """\
# what is trained
criterion:
  ignore_index: 0  # padding
  _target_: {target}
  reduction: ${{reduction}}
  inner:
    smoothing: 0.5
model:
  - _target_: package.models.Model
    layers: 2
"""


def test_what_a_configuration_says() -> None:
    first, second = targets.read(CONFIGURATION.format(target="torch.nn.CrossEntropyLoss"), "conf/train.yaml")
    assert (first.key, first.path) == ("criterion", "torch.nn.CrossEntropyLoss")
    assert dict(first.arguments) == {"ignore_index": Const(0), "reduction": Sym("${reduction}")}
    assert (first.spot.row, first.spot.column) == (4, 2)
    assert (second.key, second.path, dict(second.arguments)) == ("model", "package.models.Model", {"layers": Const(2)})


def test_a_file_of_a_group() -> None:
    (found,) = targets.read(
        "_target_: torch.nn.functional.cross_entropy\n_partial_: true\nlabel_smoothing: 1e-1\n", "conf/loss/ce.yaml"
    )
    assert (found.key, found.partial, dict(found.arguments)) == ("loss", True, {"label_smoothing": Const(0.1)})


INSTANTIATED = {
    "hydra": ("import hydra", "hydra.utils.instantiate(args.criterion)", "torch.nn.CrossEntropyLoss"),
    "a key": ("from hydra.utils import instantiate", 'instantiate(args["criterion"])', "torch.nn.CrossEntropyLoss"),
    "the project's": ("from hydra.utils import instantiate", "instantiate(args.criterion)", "losses.own.CELoss"),
}


def _configured(folder: Path, source: str, target: str) -> tuple[Finding, ...]:
    files = {
        "pyproject.toml": "",
        "conf/train.yaml": CONFIGURATION.format(target=target).replace("  reduction: ${reduction}\n", ""),
        "losses/__init__.py": "",
        "losses/own.py": f"from torch import nn\n{MEAN}",
        "train.py": source,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text)
    return engine.check_source(source.encode(), str(folder / "train.py"), FileProject(), ALL).findings


@pytest.mark.parametrize(("top", "made", "target"), INSTANTIATED.values(), ids=INSTANTIATED)
def test_instantiated(tmp_path: Path, top: str, made: str, target: str) -> None:
    source = LOOP.format(top=top, made=made, mark="GA101 error")
    found = _configured(tmp_path, source, target)
    assert loud(found) == expected(source)
    (finding,) = (f for f in found if f.code == "GA101")
    shown = {r.place.filename.rpartition("/")[2] for r in finding.related}
    assert ("train.yaml" in shown) == target.startswith("torch"), "where a library's loss is chosen"


def test_what_the_call_says_holds(tmp_path: Path) -> None:
    """Before what the configuration says."""
    source = LOOP.format(top="import hydra", made="hydra.utils.instantiate(args.criterion, reduction='sum')", mark="")
    found = _configured(tmp_path, source, "torch.nn.CrossEntropyLoss")
    assert [f.message.partition(" is ")[0] for f in found if f.code == "GA101"] == ["a sum over scored tokens"]
