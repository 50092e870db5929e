"""Training code as it was met in repositories that nobody had labelled: what must be said of it, and what not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gafixer import engine
from gafixer.analysis.checkout import FileProject
from gafixer.analysis.project import MemoryProject
from gafixer.analysis.site import Divisor, Items, Scale, Variation
from gafixer.analysis.windows import Shape
from tests.analysis.scanning import ALL, loud, scan, sites

if TYPE_CHECKING:
    from pathlib import Path

#: Discriminators that train every so many batches, each loss with an optimizer to itself.
TURNS = """\
import torch.nn.functional as F

def train(generator, critic, loader, critic_optimizer, optimizer):
    for step, (x, y) in enumerate(loader):
        if step % 4 == 0:
            critic_loss = F.binary_cross_entropy(critic(x), y)
            {clear}
            critic_loss.backward()
            critic_optimizer.step()
        loss = F.binary_cross_entropy(critic(generator(x)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_losses_that_take_turns() -> None:
    """Every microbatch steps, whatever else steps every so many batches."""
    source = TURNS.format(clear="critic_optimizer.zero_grad()")
    assert {site.window.shape for site in sites(source)} == {Shape.SINGLE}
    assert loud(scan(source)) == set()


def test_one_optimizer_stepped_in_two_places_is_one_window() -> None:
    """The same optimizer under a condition and without: nobody takes turns."""
    source = TURNS.replace("critic_optimizer", "optimizer").format(clear="pass")
    assert Shape.GUARDED in {site.window.shape for site in sites(source)}


ENGINE = """\
def train(engine, batch):
    loss = engine.{loss}(engine.model(batch.x).flatten(0, 1), batch.y.flatten())
    (loss / batch.y.size(0) / engine.steps).backward()
    if engine.state.iteration % engine.steps == 0:
        engine.optimizer.step()
        engine.optimizer.zero_grad()
"""


def test_the_criterion_of_an_engine_is_no_engine() -> None:
    """What it sums or averages can't be told, so its size is no wrong divisor; a head's mean has one too many."""
    assert loud(scan(ENGINE.format(loss="crit"))) == set()
    assert {code for _, code, _ in loud(scan(ENGINE.format(loss="model")))} == {"GA105"}


POSITIONS = """\
import torch.nn.functional as F
{collate}
def train(model, loader, optimizer, n):
    for i, (x, y, mask) in enumerate(loader):
        each = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0, reduction="none")
        loss = {reduced}
        (loss / n).backward()
        if (i + 1) % n == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
BLOCKS = 'data = np.memmap("train.bin", dtype=np.uint16, mode="r")'
PADS = "def collate(rows):\n    return pad_sequence(rows, batch_first=True)"


@pytest.mark.parametrize(
    ("reduced", "collate", "variation"),
    [
        ("(each * mask.flatten()).mean()", BLOCKS, Variation.FIXED),
        ("(each * mask.flatten()).mean()", PADS, Variation.CERTAIN),
        ("each.mean()", "", Variation.UNKNOWN),
        ("(each * mask.flatten()).sum() / mask.sum()", BLOCKS, Variation.CERTAIN),
        ("each[mask.flatten()].mean()", BLOCKS, Variation.CERTAIN),
    ],
)
def test_a_mean_over_every_position(reduced: str, collate: str, variation: Variation) -> None:
    """It divides by what isn't scored too: only the width of a batch can make it vary."""
    (site,) = sites(POSITIONS.format(reduced=reduced, collate=collate))
    (term,) = site.terms
    assert (term.scale, term.variation) == (Scale.MEAN, variation)
    assert (term.items is Items.ELEMENTS) is (variation is not Variation.CERTAIN or collate is PADS)


LIST = """\
class Learner:
    def __init__(self, model, optimizer, n):
        self.model, self.optimizer, self.n = model, optimizer, n
        self.buffer = [None] * {length}

    def learn(self, batches):
        for i, batch in enumerate(batches):
            self.buffer[i % self.n] = batch
            if (i + 1) % self.n == 0:
                for step, (x, y) in enumerate(self.buffer):
                    self.update(x, y, step)

    def update(self, x, y, step):
        loss = self.model(x, labels=y).loss / self.n
        loss.backward()
        if (step + 1) % self.n == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()
"""


def test_a_list_of_as_many_as_the_window_leaves_nothing_over() -> None:
    assert "GA201" not in {code for _, code, _ in loud(scan(LIST.format(length="self.n")))}
    assert all(site.window.loop is None or not site.by_epoch for site in sites(LIST.format(length="self.n")))


CUT = """\
def train(model, stream, optimizer, n):
    for sequences in stream:
        passes = sequences.size(0) // 8
        for i in range(passes):
            rows = sequences[i * 8 : (i + 1) * 8]
            each = model(rows, labels=rows, reduction="none")
            loss = (each * weigh(rows)).sum() / ((rows >= 0).sum() * passes)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def test_how_often_a_batch_is_cut_is_no_size_of_a_microbatch() -> None:
    """And a model that is asked for the losses of its items gives no mean."""
    (site,) = sites(CUT)
    kinds = {d.divisor for term in site.terms for d in term.divisions}
    assert Divisor.SAMPLES not in kinds
    assert "GA105" not in {code for _, code, _ in loud(scan(CUT))}


RESUMED = """\
def train(model, loader, optimizer, accumulation_steps, done, before):
    for epoch in range(3):
        for step, (x, y) in enumerate(loader):
            if epoch == before and step < done * accumulation_steps - before * len(loader):
                continue
            loss = model(x, labels=y)[0].sum()
            loss.backward()
            # the window ends
            if (step + 1) % accumulation_steps == 0:
                optimizer.step()
                optimizer.zero_grad()
"""


def test_where_a_run_is_resumed_is_no_window() -> None:
    """A counter is compared with a figure worked out of the steps: backward is under no guard for that."""
    assert loud(scan(RESUMED)) == {(7, "GA104", "error"), (9, "GA201", "warning")}


BUFFER = """\
class Blocks:
    def __iter__(self):
        buffer = []
        for text in self.texts:
            buffer += self.tokenizer(text)
            while len(buffer) > self.max_tokens:
                yield torch.tensor(buffer[: self.max_tokens])
                buffer = buffer[self.max_tokens :]

def train(model, loader, optimizer, n):
    for epoch in range(2):
        for i, batch in enumerate(loader):
            loss = model(batch, labels=batch).loss / n
            loss.backward()
            if (i + 1) % n == 0:
                optimizer.step()
                optimizer.zero_grad()
        optimizer.zero_grad()
"""


def test_a_buffer_that_blocks_are_taken_off() -> None:
    (site,) = sites(BUFFER)
    assert [term.variation for term in site.terms] == [Variation.FIXED]


def test_a_shape_that_is_asserted() -> None:
    code = POSITIONS.format(
        reduced="F.cross_entropy(model(x).view(-1, 9), y.view(-1))",
        collate="def check(logits, seq_len):\n    assert logits.shape == (\n        8,\n        seq_len,\n    )\n",
    )
    assert [term.variation for site in sites(code) for term in site.terms] == [Variation.FIXED]


WHOLE = """\
def train(self):
    for i, batch in enumerate(self.loader):
        {above}
        loss = self.model({given})["{part}"] / self.accumulation_steps
        loss.backward()
        if (i + 1) % self.accumulation_steps == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("given", "above", "part", "variation"),
    [
        ("**batch", "pass", "intent_loss", Variation.UNKNOWN),  # of samples, as likely as of tokens
        ("**batch", "pass", "loss", Variation.PROBABLE),
        ("**batch", "keep = batch['x'] != pad_token_id", "intent_loss", Variation.PROBABLE),
        ("**batch", "# AutoModelForCausalLM", "intent_loss", Variation.PROBABLE),
        ("x=batch['x'], labels=batch['y']", "pass", "intent_loss", Variation.PROBABLE),
    ],
)
def test_a_whole_batch_for_any_model(given: str, above: str, part: str, variation: Variation) -> None:
    (site,) = sites(WHOLE.format(given=given, above=above, part=part))
    assert [term.variation for term in site.terms] == [variation]


OUTPUTS = """\
def train(model, loader, optimizer, n, a, b):
    for i, (x, y, z) in enumerate(loader):
        first, second, third, *_ = model(x, lm_labels=y, mc_labels=z)
        loss = (first * a + {other} * b) / n
        loss.backward()
        if (i + 1) % n == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(("other", "heads"), [("second", 2), ("third", 1)])
def test_as_many_losses_come_out_as_labels_went_in(other: str, heads: int) -> None:
    (site,) = sites(OUTPUTS.format(other=other))
    assert sum(term.scale is Scale.MEAN for term in site.terms) == heads


def test_only_deepspeed_divides_what_a_model_sends_backward() -> None:
    """A model with a `backward` of its own is no engine, unless somebody speaks of DeepSpeed."""
    code = WHOLE.replace("loss.backward()", "self.model.backward(loss)").format(
        given="**batch", above="{}", part="loss"
    )
    assert "GA103" in {f.code for f in scan(code.format("# deepspeed"))}
    assert "GA103" not in {f.code for f in scan(code.format("pass"))}


def test_a_count_of_tokens_alone_says_nothing_of_batches() -> None:
    """`max_tokens` is how long an answer or a context may be."""
    code = (
        "def train(model, loader, optimizer, n):\n    model.generate(max_tokens=20)\n"
        + BUFFER.split("optimizer, n):\n")[1]
    )
    (site,) = sites(code)
    assert [e.message for term in site.terms for e in term.evidence] == []


# -- other modules -------------------------------------------------------------------------------------------------

STEP = """\
import torch.nn.functional as F

def train(model, loader, optimizer, accumulation_steps{accelerator}):
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0)
        loss = loss / accumulation_steps
        {backward}
        if (i + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
CALLER = """\
from loop import train

def main():
    model, loader, optimizer = make()
    train(model, loader, optimizer, 4{given})
    loss.backward
"""


def said(path: str, source: str, **modules: str) -> set[str]:
    """The codes that are shown of a file of a project of these other modules."""
    report = engine.check_source(source.encode(), path, MemoryProject(modules), ALL)
    return {code for _, code, _ in loud(report.findings)}


def test_a_site_is_told_where_it_goes_backward() -> None:
    """Who calls it says nothing more, and a test that does says nothing at all."""
    step = STEP.format(accelerator="", backward="loss.backward()")
    assert said("loop.py", step) == {"GA101"}
    assert said("main.py", CALLER.format(given=""), loop=step) == set()
    assert said("tests/test_loop.py", CALLER.format(given=""), loop=step) == set()


def test_who_calls_it_shows_a_second_division() -> None:
    """The framework's steps are given in another file than the one that goes backward."""
    step = STEP.format(accelerator=", accelerator", backward="accelerator.backward(loss)")
    caller = CALLER.format(given=", accelerator").replace(
        "def main():\n",
        "from accelerate import Accelerator\n\n"
        "def main():\n    accelerator = Accelerator(gradient_accumulation_steps=4)\n",
    )
    assert "GA103" not in said("loop.py", step)
    assert "GA103" in said("main.py", caller.replace("    loss.backward\n", ""), loop=step)
    assert said("tests/test_main.py", caller, loop=step) == set()


def test_a_project_inside_the_project(tmp_path: Path) -> None:
    """It is installed from its own folder, which has its name."""
    (tmp_path / "setup.py").write_text("")
    inner = tmp_path / "blocks" / "blocks"
    inner.mkdir(parents=True)
    (tmp_path / "blocks" / "setup.py").write_text("")
    (inner / "__init__.py").write_text("")
    (inner / "data.py").write_text("LENGTH = 8\n")
    project = FileProject()
    assert project.module("blocks.data", str(tmp_path / "train.py")) is not None
    (tmp_path / "blocks" / "setup.py").unlink()
    assert FileProject().module("blocks.data", str(tmp_path / "train.py")) is None
