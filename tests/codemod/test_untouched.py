"""Code that is right, or that no careful engineer would rewrite from sight, stays as it is to the byte."""

from __future__ import annotations

import pytest

from gafixer.findings import Applicability
from tests.codemod.fixer import findings, fix

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn


"""

#: name -> code in which something is wrong that the codemod can't mend by itself, and a word of the reason it gives
DECLINED = {
    "two_denominators": (
        """
def train(model, loader, optimizer, steps):
    for i, (x, y, z) in enumerate(loader):
        words, marks = model(x)
        first = F.cross_entropy(words.flatten(0, 1), y.flatten(), ignore_index=-100)
        second = F.cross_entropy(marks.flatten(0, 1), z.flatten(), ignore_index=-100)
        loss = (first + second) / steps
        loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
        "denominators of their own",
    ),
    "two_backwards": (
        """
def train(model, loader, optimizer, steps):
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100) / steps
        loss.backward()
        again = F.cross_entropy(model(x + 1).flatten(0, 1), x.flatten(), ignore_index=-100) / steps
        again.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
        "several losses",
    ),
    "a_function_that_may_skip": (
        """
def microbatch(model, x, y, steps):
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100) / steps
    if not torch.isfinite(loss):
        return
    loss.backward()


def train(model, loader, optimizer, steps):
    for i, (x, y) in enumerate(loader, 1):
        microbatch(model, x, y, steps)
        if i % steps == 0 or i == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
        "may leave a microbatch out",
    ),
    "a_function_of_two_loops": (
        """
def microbatch(model, x, y, steps):
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100) / steps
    loss.backward()


def warm_up(model, loader, optimizer):
    for x, y in loader:
        microbatch(model, x, y, 1)
        optimizer.step()


def train(model, loader, optimizer, steps):
    for i, (x, y) in enumerate(loader, 1):
        microbatch(model, x, y, steps)
        if i % steps == 0 or i == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
        "several",
    ),
    "a_wrapper_of_two_losses": (
        """
def scaled(loss_function, factor):
    def wrapper(*args, **kwargs):
        return loss_function(*args, **kwargs) / factor

    return wrapper


def token_loss(logits, y):
    return F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100)


def train(model, loader, optimizer, steps):
    loss_function = scaled(token_loss, steps)
    other = scaled(F.mse_loss, 2)
    for i, (x, y) in enumerate(loader, 1):
        loss_function(model(x), y).backward()
        if i % steps == 0 or i == len(loader):
            optimizer.step()
            optimizer.zero_grad()
            print(other(model(x), x))
""",
        "more than this loss",
    ),
    "targets_are_computed": (
        """
def train(model, loader, optimizer, steps):
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), model.targets(y).flatten(), ignore_index=-100) / steps
        loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
        "twice",
    ),
    "masked_mean_of_each_row": (
        """
def train(model, loader, optimizer, steps):
    for i, (x, y, mask) in enumerate(loader):
        losses = F.cross_entropy(model(x).transpose(1, 2), y, reduction="none")
        loss = ((losses * mask).sum(1) / mask.sum(1)).mean() / steps
        loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
        "",
    ),
    "a_loss_that_is_not_in_sight_on_one_way": (
        """
def train(model, loader, optimizer, steps):
    for i, (x, y) in enumerate(loader):
        if i % 2 == 0:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        else:
            loss = model.distilled(x)
        (loss / steps).backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
        "",
    ),
    "every_batch_of_the_loader_steps": (
        """
def train(model, loader, optimizer, accumulation_steps, epochs):
    for epoch in range(epochs):
        for x, y in loader:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100) / accumulation_steps
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
""",
        "the author's choice",
    ),
    "shares_its_line": (
        """
def train(model, loader, optimizer, steps):
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100); loss = loss / steps
        loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader): optimizer.step(); optimizer.zero_grad()
""",
        "",
    ),
}

RIGHT = {
    "sum_over_the_window": """
def train(model, window, optimizer):
    num_items = sum(y.ne(-100).sum() for _, y in window)
    for x, y in window:
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")
        (loss / num_items).backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "no_accumulation": """
def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
""",
    "evaluation": """
@torch.no_grad()
def evaluate(model, loader):
    total = 0.0
    for x, y in loader:
        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100).item()
    return total / len(loader)
""",
    "text_only": '''
EXAMPLE = """
for i, (x, y) in enumerate(loader):
    loss = F.cross_entropy(model(x), y, ignore_index=-100) / steps
    loss.backward()
    if (i + 1) % steps == 0:
        optimizer.step()
"""
''',
    "silenced_elsewhere": """
def report(losses, steps):
    return sum(loss.item() for loss in losses) / steps
""",
}


@pytest.mark.parametrize("name", DECLINED)
def test_declined_with_a_reason(name: str) -> None:
    code, word = DECLINED[name]
    found = findings(HEAD + code)
    assert fix(HEAD + code, unsafe=True) == HEAD + code
    for finding in found:
        assert finding.fix is not None
        assert finding.fix.applicability is Applicability.DISPLAY
        assert finding.fix.edits == ()
        assert finding.fix.message.startswith("not rewritten: ")
    if word:
        assert any(word in f.fix.message for f in found if f.fix is not None)


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_stays(name: str) -> None:
    assert fix(HEAD + RIGHT[name], unsafe=True) == HEAD + RIGHT[name]


def test_deep_nesting_is_declined() -> None:
    deep = "+".join(["x"] * 400)
    code = f"{HEAD}Y = {deep}\n" + DECLINED["two_backwards"][0].replace("again.backward()", "again.detach()")
    assert fix(code, unsafe=True) == code
    assert any(f.fix is not None and "nesting" in f.fix.message for f in findings(code))


def test_heads_need_consent() -> None:
    """What the head shifts is an assumption: such a fix is made on request only."""
    code = """
def train(model, loader, optimizer, steps):
    for i, batch in enumerate(loader):
        loss = model(**batch).loss / steps
        loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
"""
    assert fix(code) == code
    made = fix(code, unsafe=True)
    assert 'items = batch["labels"][..., 1:].ne(-100).sum()' in made
    assert "(loss * items).backward()" in made


@pytest.mark.parametrize(
    ("head", "count"),
    [
        ("AutoModelForCausalLM", "[..., 1:].ne(-100).sum()"),
        ("BertForTokenClassification", ".ne(-100).sum()"),
        ("T5ForConditionalGeneration", ".ne(-100).sum()"),
    ],
)
def test_a_head_in_sight_says_what_it_scores(head: str, count: str) -> None:
    code = f"""
from transformers import {head}


def train(loader, optimizer, steps):
    model = {head}.from_pretrained("tiny")
    for i, batch in enumerate(loader):
        loss = model(**batch).loss / steps
        loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
"""
    assert f'items = batch["labels"]{count}\n' in fix(code, unsafe=True)


TWO_OF_A_NAME = """\
import torch.nn.functional as F
from transformers import PreTrainedModel


class OneForCausalLM(PreTrainedModel):
    def forward(self, x, labels=None, **kwargs):
        return {"loss": self.get_nll(self.head(x), labels)}

    def get_nll(self, logits, labels):
        return F.cross_entropy(logits, labels)


class OtherForCausalLM(PreTrainedModel):
    def forward(self, x, labels=None, **kwargs):
        return {"loss": self.get_nll(self.head(x), labels)}

    def get_nll(self, logits, labels):
        return F.cross_entropy(logits, labels)
"""


def test_a_method_is_that_of_its_own_class() -> None:
    """Each gets the count by a parameter of its own; nothing is handed to what does not take it."""
    made = fix(TWO_OF_A_NAME, unsafe=True)
    assert made.count("def get_nll(self, logits, labels, num_items_in_batch=None):") == 2
    assert "labels, **kwargs)" not in made
