"""What a default loss averages over: read in the model's own forward, told by the name of a head, or not known."""

from __future__ import annotations

import pytest

from tests.codemod.fixer import findings, fix

MODEL = """
import torch.nn.functional as F
from torch import nn


class Tagger(nn.Module):
    def forward(self, idx, targets=None, reduction="mean"):
        logits = self.head(idx)
        loss = None
        if targets is not None:
            kept, targets = logits[..., :-1, :].contiguous(), targets[..., 1:].contiguous()
            loss = F.cross_entropy(kept.flatten(0, 1), targets.flatten(), ignore_index=-1, reduction=reduction)
        return logits, loss
"""
FACTORY = """
from net import Tagger


def load(path):
    model = Tagger()
    model.load_state_dict(read(path))
    return model.cuda()
"""
LOOP = """
import torch
from {module} import {name}


def train(path, loader, optimizer, steps):
    model = make({name}, path)
    for i, (x, y) in enumerate(loader):
        y[y == 0] = -1
        _, loss = model({arguments})
        loss = loss / steps
        loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize("module", ["net", "factory"])
@pytest.mark.parametrize("arguments", ["x, y", "x, targets=y", "idx=x, targets=y"])
def test_the_forward_of_the_project_says_what_it_scores(module: str, arguments: str) -> None:
    code = LOOP.format(module=module, name="Tagger" if module == "net" else "load", arguments=arguments)
    assert fix(code, net=MODEL, factory=FACTORY) == code  # which model it is, is assumed
    made = fix(code, unsafe=True, net=MODEL, factory=FACTORY)
    assert "        items = y[..., 1:].ne(-1).sum()\n" in made
    assert "        (loss * items).backward()\n" in made


def test_models_that_score_different_labels_are_not_told_apart() -> None:
    other = MODEL.replace("Tagger", "Scorer").replace("ignore_index=-1", "ignore_index=-7")
    code = LOOP.format(module="net", name="Tagger", arguments="x, y").replace("Tagger", "Tagger if path else Scorer")
    code = code.replace("import Tagger if path else Scorer", "import Scorer, Tagger")
    models = MODEL + other.partition("from torch import nn")[2]
    assert fix(code, unsafe=True, net=models) == code
    said = [f.fix.message for f in findings(code, net=models) if f.fix is not None]
    assert any("several kinds" in message for message in said)


def test_a_model_whose_loss_has_a_part_that_is_not_in_sight_tells_nothing() -> None:
    model = MODEL.replace(
        "        return logits, loss", "            loss = loss + self.more(idx)\n        return logits, loss"
    )
    code = LOOP.format(module="net", name="Tagger", arguments="x, y")
    assert fix(code, unsafe=True, net=model) == code
    assert all(f.fix is not None for f in findings(code, net=model))


APEX = """
from apex import amp
import torch
import torch.nn.functional as F


def train(args, model, loader, optimizer, steps):
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        if steps > 1:
            loss = loss / steps
        if args.fp16:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), args.clip)
        else:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
"""
APEX_FIXED = """\
    num_items = 0
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")
        num_items += y.ne(-100).sum()
        if args.fp16:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            _divide_gradients(
                {parameters}, num_items
            )
            num_items = 0
            if args.fp16:
                torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), args.clip)
            else:
                torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            optimizer.step()
            optimizer.zero_grad()
"""


def test_what_depends_on_a_choice_goes_on_depending_on_it() -> None:
    parameters = '(parameter for group in optimizer.param_groups for parameter in group["params"])'
    assert fix(APEX).endswith(APEX_FIXED.replace("{parameters}", parameters))


NER = """
from torch import nn
from transformers import BertModel, BertPreTrainedModel

from focal import FocalLoss


class BertForTags(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.loss_type = config.loss_type

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        outputs = self.bert(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        logits = self.classifier(outputs[0])
        outputs = (logits,) + outputs[2:]
        if labels is not None:
            if self.loss_type == "focal":
                loss_fct = FocalLoss(ignore_index=0)
            else:
                loss_fct = nn.CrossEntropyLoss(ignore_index=0)
            if attention_mask is not None:
                active = attention_mask.view(-1) == 1
                loss = loss_fct(logits.view(-1, 9)[active], labels.view(-1)[active])
            else:
                loss = loss_fct(logits.view(-1, 9), labels.view(-1))
            outputs = (loss,) + outputs
        return outputs
"""
SPREAD = """
import torch
from transformers import BertConfig

from ner import BertForTags

KINDS = {"bert": (BertConfig, BertForTags)}


def train(args, loader, model, optimizer):
    for step, batch in enumerate(loader):
        batch = tuple(t.to(args.device) for t in batch)
        inputs = {"input_ids": batch[0], "attention_mask": batch[1], "labels": batch[3]}
        if args.model_type != "distilbert":
            inputs["token_type_ids"] = batch[2] if args.model_type in ["bert", "xlnet"] else None
        outputs = model(**inputs)
        loss = outputs[0]
        if args.accumulation_steps > 1:
            loss = loss / args.accumulation_steps
        loss.backward()
        if (step + 1) % args.accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()


def main(args):
    model = load_model(args, KINDS[args.model_type.lower()])
    train(args, make_loader(args), model, torch.optim.Adam([]))
"""


def test_a_forward_is_read_though_its_arguments_are_spread_and_its_outputs_go_on() -> None:
    made = fix(SPREAD, unsafe=True, ner=NER)
    assert '        items = inputs["labels"][inputs["attention_mask"] == 1].ne(0).sum()\n' in made
    assert max(map(len, made.splitlines())) <= max(map(len, SPREAD.splitlines()))


REWARD = """
from net import make_reward_model


def train(args, loader, optimizer):
    model = make_reward_model(args)
    for step, batch in enumerate(loader):
        outputs = model(**batch, use_cache=False)
        loss = outputs["loss"] / args.accumulation_steps
        loss.backward()
        if (step + 1) % args.accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
MAKES = """
def make_reward_model(args):
    return RewardModel(args.path)
"""


def test_a_model_of_the_project_is_not_taken_for_one_with_labels() -> None:
    """Nothing in the file speaks of labels: to count them would end in a KeyError."""
    assert fix(REWARD, unsafe=True, net=MAKES) == REWARD
    assert "not in sight which labels" in str([f.fix for f in findings(REWARD, net=MAKES)])


LONG_CALL = """
import torch.nn.functional as F


def train(model, loader, optimizer, steps, number_of_the_classes):
    for i, (tokens, the_labels_of) in enumerate(loader):
        loss = F.cross_entropy(model(tokens).view(-1, number_of_the_classes), the_labels_of.view(-1), ignore_index=0)
        (loss / steps).backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize("lines", [1, 2])
def test_an_argument_that_makes_a_line_too_long_gets_its_own(lines: int) -> None:
    """Also behind others, on the last of a call's lines."""
    broken = LONG_CALL.replace("_classes), the", "_classes),\n" + " " * 31 + "the").replace(
        "index=0)", "index=0, label_smoothing=0.0000001)"
    )
    made = fix(LONG_CALL if lines == 1 else broken.replace("the_labels_of", "the_longest_labels_of"))
    assert ',\n                               reduction="sum")\n' in made
    assert max(map(len, made.splitlines())) <= 120
