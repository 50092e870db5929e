"""GA301 to GA304: their scripts are run through the installed `Trainer`; the right ones meet the reference gradient."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch.optim.optimizer import register_optimizer_step_pre_hook  # noqa: E402 - torch may be missing

from tests.rules.scripts import load_script  # noqa: E402 - it imports torch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    from torch import Tensor, nn

PARITY = 1e-6  # float64: rounding stays far below
FAULT = 0.05

pytestmark = pytest.mark.filterwarnings("default")  # of the library's own making

#: code -> what a script's loss smooths its labels by.
SMOOTHING = {"GA301": 0.1, "GA303": 0.0, "GA304": 0.0}


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sums of the same order, no network, and no fight for the cores."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Watch:
    """Compares the gradients before each step with those of the window in one batch."""

    def __init__(self, script: ModuleType, model: nn.Module, steps: int, smoothing: float) -> None:
        self.ratios: list[float] = []
        self.errors: list[float] = []
        self._batches: list[dict[str, Tensor]] = []
        self._model, self._steps, self._smoothing = model, steps, smoothing
        self._done = 0
        collate = script.collate

        def recorded(sentences: Any) -> dict[str, Tensor]:
            batch: dict[str, Tensor] = collate(sentences)
            self._batches.append({key: value.clone() for key, value in batch.items()})
            return batch

        script.collate = recorded  # type: ignore[attr-defined] # the script's own name

    def __call__(self, *_: object) -> None:
        """A step is due."""
        window = self._batches[self._done : self._done + self._steps]
        self._done += self._steps
        parameters = list(self._model.parameters())
        got = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
        with torch.enable_grad():
            logits = torch.cat([self._model(input_ids=b["input_ids"]).logits.flatten(0, 1) for b in window])
            labels = torch.cat([b["labels"].flatten() for b in window])
            loss = torch.nn.functional.cross_entropy(logits, labels, label_smoothing=self._smoothing)
        want = torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])
        self.ratios.append(float(got.norm() / want.norm()))
        self.errors.append(float((got - want).norm() / want.norm()))


def _run(code: str, name: str, folder: Path, steps: int = 4) -> Watch:
    script = load_script(code, name)
    model, sentences = script.build()
    watch = Watch(script, model, steps, SMOOTHING.get(code, 0.0))
    hook = register_optimizer_step_pre_hook(watch)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            script.train(model, sentences, str(folder), steps=steps)
    finally:
        hook.remove()
    return watch


@pytest.mark.parametrize("code", SMOOTHING)
def test_good_meets_the_reference(code: str, tmp_path: Path) -> None:
    watch = _run(code, "good", tmp_path)
    assert len(watch.errors) == 3  # windows of 4, 4 and 2 microbatches
    assert max(watch.errors) < PARITY


@pytest.mark.parametrize("code", SMOOTHING)
def test_bad_misses_the_reference(code: str, tmp_path: Path) -> None:
    watch = _run(code, "bad", tmp_path)
    assert len(watch.errors) == 3
    assert max(watch.errors) > FAULT


@pytest.mark.parametrize("code", ["GA301", "GA303"])
def test_nobody_divides(code: str, tmp_path: Path) -> None:
    """The gradient is about steps times too big; exactly so where all counts are equal, as in no window here."""
    watch = _run(code, "bad", tmp_path)
    assert min(watch.ratios[:2]) > 3


@pytest.mark.parametrize("code", SMOOTHING)
def test_without_accumulation_both_are_right(code: str, tmp_path: Path) -> None:
    for name in ("good", "bad"):
        assert max(_run(code, name, tmp_path, steps=1).errors) < PARITY


def test_signature_that_fails(tmp_path: Path) -> None:
    assert max(_run("GA302", "good", tmp_path).errors) < PARITY
    with pytest.raises(TypeError, match="num_items_in_batch"):
        _run("GA302", "bad", tmp_path)
