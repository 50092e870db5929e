"""What a head's loss does with the window's count, read from its source."""

from __future__ import annotations

import textwrap

import pytest

from gafixer.analysis import prefilter
from gafixer.analysis.flow import Honours, Maker
from gafixer.analysis.heads import HeadSite, heads
from gafixer.analysis.prefilter import Matter
from gafixer.analysis.project import MemoryProject
from gafixer.analysis.source import Module

IMPORTS = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn import CrossEntropyLoss
from transformers import LlamaForCausalLM, PreTrainedModel
"""


def read(source: str, **others: str) -> dict[str, HeadSite]:
    """The heads of a module, by name."""
    module, project = _given(source, others)
    return {head.name: head for head in heads(module, project)}


def flagged(source: str, **others: str) -> list[HeadSite]:
    """The heads that are looked at where only those with a switch are asked for."""
    module, project = _given(source, others)
    return heads(module, project, flagged=True)


def _given(source: str, others: dict[str, str]) -> tuple[Module, MemoryProject]:
    text = IMPORTS + textwrap.dedent(source)
    project = MemoryProject({name: IMPORTS + textwrap.dedent(other) for name, other in others.items()})
    return Module.read("model", "model.py", text.encode(), whole=False), project


def head(body: str, *, name: str = "TaggerForTokenClassification", **others: str) -> HeadSite:
    """One head with this forward."""
    source = f"class {name}(PreTrainedModel):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    return read(source, **others)[name]


def honours(site: HeadSite) -> set[Honours]:
    """What its losses do with the count."""
    return {call.honours for call in site.losses}


DROPS = {
    "criterion in forward": """
        def forward(self, x, labels=None, **kwargs):
            loss_fct = CrossEntropyLoss()
            return {"loss": loss_fct(self.head(x), labels)}
    """,
    "functional": """
        def forward(self, x, labels=None, **kwargs):
            logits = self.head(x)
            loss = None
            if labels is not None:
                loss = F.cross_entropy(logits, labels)
            return ((loss,) + (logits,)) if loss is not None else (logits,)
    """,
    "criterion of the object": """
        def __init__(self, config):
            super().__init__(config)
            self.criterion = nn.CrossEntropyLoss(ignore_index=0)

        def forward(self, x, labels=None, **kwargs):
            return self.criterion(self.head(x), labels), self.head(x)
    """,
    "the library's loss without the kwargs": """
        def forward(self, x, labels=None, **kwargs):
            hidden = self.model(x, **kwargs).last_hidden_state
            return {"loss": self.loss_function(self.head(hidden), labels, self.config)}
    """,
    "a helper method": """
        def forward(self, x, labels=None, **kwargs):
            return {"loss": self.compute(self.head(x), labels)}

        def compute(self, logits, labels):
            return F.nll_loss(logits.log_softmax(-1), labels)
    """,
    "a criterion from a factory": """
        def forward(self, x, labels=None, **kwargs):
            criterion = self.make_loss()
            return {"loss": criterion(self.head(x), labels)}

        def make_loss(self):
            return CrossEntropyLoss(label_smoothing=0.1)
    """,
    "a mean by hand": """
        def forward(self, x, labels=None, **kwargs):
            loss = F.cross_entropy(self.head(x), labels, reduction="none")
            return {"loss": (loss * (labels != -100)).sum() / (labels != -100).sum()}
    """,
    "a mean of losses per item": """
        def forward(self, x, labels=None, **kwargs):
            return {"loss": F.cross_entropy(self.head(x), labels, reduction="none").mean()}
    """,
    "one problem type": """
        def forward(self, x, labels=None, **kwargs):
            if self.config.problem_type == "regression":
                loss = nn.MSELoss()(self.head(x), labels)
            else:
                loss = nn.BCEWithLogitsLoss()(self.head(x), labels)
            return {"loss": loss}
    """,
}

DIVIDES = {
    "the library's loss": """
        def forward(self, x, labels=None, **kwargs):
            return {"loss": self.loss_function(self.head(x), labels, self.config, **kwargs)}
    """,
    "the count by name": """
        def forward(self, x, labels=None, num_items_in_batch=None, **kwargs):
            return {"loss": self.loss_function(self.head(x), labels, num_items_in_batch=num_items_in_batch)}
    """,
    "a sum over the count": """
        def forward(self, x, labels=None, **kwargs):
            num_items = kwargs.get("num_items_in_batch")
            loss_fct = CrossEntropyLoss(reduction="mean" if num_items is None else "sum")
            loss = loss_fct(self.head(x), labels)
            if num_items is not None:
                loss = loss / num_items
            return {"loss": loss}
    """,
    "in place": """
        def forward(self, x, labels=None, **kwargs):
            loss = F.cross_entropy(self.head(x), labels, reduction="sum")
            loss /= kwargs["num_items_in_batch"]
            return (loss, self.head(x))
    """,
    "the count or one's own": """
        def forward(self, x, labels=None, num_items_in_batch=None, **kwargs):
            items = num_items_in_batch if num_items_in_batch is not None else labels.ne(-100).sum()
            return {"loss": F.cross_entropy(self.head(x), labels, reduction="sum") / items}
    """,
    "a helper that takes it": """
        def forward(self, x, labels=None, **kwargs):
            return {"loss": self.compute(self.head(x), labels, **kwargs)}

        def compute(self, logits, labels, num_items_in_batch=None, **kwargs):
            return F.cross_entropy(logits, labels, reduction="sum") / num_items_in_batch
    """,
}


@pytest.mark.parametrize("body", DROPS.values(), ids=DROPS)
def test_drops_the_count(body: str) -> None:
    site = head(body)
    assert honours(site) == {Honours.NO}
    assert site.promises
    assert site.counted
    assert site.library


@pytest.mark.parametrize("body", DIVIDES.values(), ids=DIVIDES)
def test_divides_by_the_count(body: str) -> None:
    assert honours(head(body)) == {Honours.YES}


def test_sum_is_open() -> None:
    body = """
        def forward(self, x, labels=None, **kwargs):
            return {"loss": F.cross_entropy(self.head(x), labels, reduction="sum")}
    """
    assert honours(head(body)) == {Honours.OPEN}


def test_count_in_the_model_is_not_in_its_logits() -> None:
    body = """
        def forward(self, x, labels=None, **kwargs):
            logits = self.model(x, **kwargs).logits
            return {"loss": self.loss_function(logits, labels)}
    """
    assert honours(head(body)) == {Honours.NO}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("XForCausalLM", Honours.YES),
        ("XForImageClassification", Honours.PARTLY),
        ("XForObjectDetection", Honours.NO),
        ("XLMHeadModel", Honours.YES),
    ],
)
def test_library_loss_by_the_name_of_the_class(name: str, expected: Honours) -> None:
    body = """
        def forward(self, x, labels=None, **kwargs):
            return {"loss": self.loss_function(self.head(x), labels, **kwargs)}
    """
    assert honours(head(body, name=name)) == {expected}


def test_own_loss_function() -> None:
    body = """
        def loss_function(self, logits, labels, **kwargs):
            return F.cross_entropy(logits, labels)

        def forward(self, x, labels=None, **kwargs):
            return {"loss": self.loss_function(self.head(x), labels, **kwargs)}
    """
    site = head(body)
    assert honours(site) == {Honours.NO}
    assert [call.maker for call in site.losses] == [Maker.CRITERION]


def test_inherited_forward_of_a_mixin_in_another_file() -> None:
    mixin = """
        class HeadMixin:
            def forward(self, x, labels=None, **kwargs):
                return {"loss": self.loss_function(self.score(x), labels)}
    """
    found = read(
        "from shared import HeadMixin\nclass XForTokenClassification(HeadMixin, PreTrainedModel):\n    pass\n",
        shared=mixin,
    )
    site = found["XForTokenClassification"]
    assert honours(site) == {Honours.NO}
    assert site.inherited is None
    assert site.own(site.losses[0].spot) == site.spot


def test_inherited_head_belongs_to_its_base() -> None:
    found = read(
        """
        class AForTokenClassification(PreTrainedModel):
            def forward(self, x, labels=None, **kwargs):
                return {"loss": F.cross_entropy(self.head(x), labels)}

        class BForTokenClassification(AForTokenClassification):
            pass
        """
    )
    assert found["AForTokenClassification"].inherited is None
    assert found["BForTokenClassification"].inherited == "AForTokenClassification"


def test_loss_in_a_submodule() -> None:
    found = read(
        """
        class Prediction(nn.Module):
            def forward(self, x, y=None):
                return nn.functional.cross_entropy(self.proj(x), y)

        class XWithLMHeadModel(PreTrainedModel):
            def __init__(self, config):
                super().__init__(config)
                self.pred = Prediction()

            def forward(self, x, labels=None, **kwargs):
                outputs = self.pred(x, labels)
                return outputs
        """
    )
    assert honours(found["XWithLMHeadModel"]) == {Honours.NO}


def test_default_loss_of_a_library_base() -> None:
    found = read(
        """
        class MyForCausalLM(LlamaForCausalLM):
            def forward(self, x, labels=None, **kwargs):
                return super().forward(x, labels=labels)

        class OtherForCausalLM(LlamaForCausalLM):
            def forward(self, x, labels=None, **kwargs):
                return super().forward(x, labels=labels, **kwargs)
        """
    )
    assert honours(found["MyForCausalLM"]) == {Honours.NO}
    assert honours(found["OtherForCausalLM"]) == {Honours.YES}


@pytest.mark.parametrize("where", ["body", "init"])
def test_flag(where: str) -> None:
    init = """
        def __init__(self, config):
            super().__init__(config)
            self.accepts_loss_kwargs = False
    """
    body = """
        def forward(self, x, labels=None, **kwargs):
            return {"loss": F.cross_entropy(self.head(x), labels)}
    """
    site = head((" " * 8 + "accepts_loss_kwargs = False\n" if where == "body" else init) + body)
    assert site.flag is not None
    assert not site.promises


def test_no_kwargs_no_promise() -> None:
    body = """
        def forward(self, x, labels=None):
            return {"loss": F.cross_entropy(self.head(x), labels)}
    """
    assert not head(body).promises


def test_positions_are_not_counted() -> None:
    body = """
        def forward(self, x, start_positions=None, end_positions=None, **kwargs):
            return {"loss": F.cross_entropy(self.head(x), start_positions)}
    """
    assert not head(body, name="XForQuestionAnswering").counted


def test_several_classes_in_a_block() -> None:
    """A bracket that is open in a docstring joins a class with what follows it."""
    found = read(
        '''
        class Encoder(PreTrainedModel):
            """An encoder :-("""
            def forward(self, x, **kwargs):
                return x

        @decorated
        class XForTokenClassification(PreTrainedModel):
            def forward(self, x, labels=None, **kwargs):
                return {"loss": F.cross_entropy(self.head(x), labels)}
        '''
    )
    assert list(found) == ["XForTokenClassification"]


def test_two_classes_of_one_name() -> None:
    """The later one has the forward; what was looked up in the first is not the second's."""
    source = IMPORTS + textwrap.dedent(
        """
        class XForTokenClassification(PreTrainedModel):
            def __init__(self, config):
                super().__init__(config)

        class XForTokenClassification(PreTrainedModel):
            def forward(self, x, labels=None, **kwargs):
                return {"loss": F.cross_entropy(self.head(x), labels)}
        """
    )
    for whole in (True, False):
        module = Module.read("model", "model.py", source.encode(), whole=whole)
        assert [len(head.losses) for head in heads(module, MemoryProject({}))] == [1]


def test_an_input_of_a_model_is_no_label() -> None:
    """Whatever it is called: the mean over what the model returns is no loss."""
    found = read(
        """
        class Model(nn.Module):
            def forward(self, x, target_mapping=None):
                return self.layers(x, target_mapping),

        class Summary(nn.Module):
            def forward(self, hidden):
                return hidden.mean(dim=1)

        class XForMultipleChoice(PreTrainedModel):
            def __init__(self, config):
                self.model = Model()
                self.summary = Summary()
            def forward(self, x, target_mapping=None, labels=None, **kwargs):
                logits = self.summary(self.model(x, target_mapping=target_mapping)[0])
                return F.cross_entropy(logits, labels), logits
        """
    )
    assert [call.name for call in found["XForMultipleChoice"].losses] == ["cross_entropy"]


def test_what_is_made_of_labels_on_the_way_to_logits_is_no_loss() -> None:
    """A decoder gets them shifted, and a norm in it takes means."""
    found = read(
        """
        from transformers.modeling_outputs import Seq2SeqLMOutput

        class Norm(nn.Module):
            def forward(self, hidden):
                return hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True))

        class XForConditionalGeneration(PreTrainedModel):
            def __init__(self, config):
                self.norm = Norm()
            def forward(self, x, labels=None, **kwargs):
                logits = self.norm(self.decoder(labels))
                loss = None
                if labels is not None:
                    loss = F.cross_entropy(logits, labels)
                if not self.config.return_dict:
                    return ((loss,) + (logits,)) if loss is not None else (logits,)
                return Seq2SeqLMOutput(loss=loss, logits=logits)
        """
    )
    assert [call.name for call in found["XForConditionalGeneration"].losses] == ["cross_entropy"]


def test_no_head() -> None:
    assert read("class Encoder(PreTrainedModel):\n    def forward(self, x, **kwargs):\n        return x\n") == {}
    assert read("class Plain:\n    def forward(self, x, labels):\n        return F.cross_entropy(x, labels)\n") == {}


def test_prefilter_lets_heads_and_overrides_pass() -> None:
    assert prefilter.matter(b"class A(BForTokenClassification, XPreTrainedModel): ...\n") is Matter.HEAD
    assert Matter.HEAD in prefilter.matter((IMPORTS + "class A(PreTrainedModel):\n    labels = loss = 1\n").encode())
    assert prefilter.matter(b"def compute_loss(self, model, inputs):\n    pass\n") is Matter.TRAINER
    assert prefilter.matter(b"from torch import nn\nclass A(nn.Module):\n    pass\n") is Matter.NOTHING


REFUSES = """
    def forward(self, x, labels=None, **unknown):
        {before}
        if len(unknown) > 0:
            raise ValueError(f"unexpected: {{unknown}}")
        return {{"loss": F.cross_entropy(self.head(x), labels)}}
"""


def test_a_forward_that_raises_for_what_it_does_not_know() -> None:
    """It promises nothing, unless it takes the count out first."""
    assert head(REFUSES.format(before='unknown.pop("position_ids", None)')).kwargs is None
    assert head(REFUSES.format(before='unknown.pop("num_items_in_batch", None)')).kwargs == "unknown"
    assert head(REFUSES.format(before="pass").replace("len(unknown) > 0", "unknown")).kwargs is None
    assert head(REFUSES.format(before="pass").replace("len(unknown) > 0", "len(x) > 0")).kwargs == "unknown"


FLAG = "\nclass Base(PreTrainedModel):\n    accepts_loss_kwargs = False\n"
HEAD = """
class Tagger({base}):
    def forward(self, x, labels=None, **kwargs):
        return nn.functional.mse_loss(x, labels)
"""


@pytest.mark.parametrize(
    ("source", "others"),
    [
        (FLAG + HEAD.format(base="Base"), {}),
        ("from base import Base" + HEAD.format(base="Base"), {"base": FLAG}),
        ("from base import Base as Other" + HEAD.format(base="Other[int]"), {"base": FLAG}),
        ("from base import *" + HEAD.format(base="Base"), {"base": FLAG}),
        ("from pkg import Base" + HEAD.format(base="Base"), {"pkg": "from base import Base\n", "base": FLAG}),
        (
            "from middle import Middle" + HEAD.format(base="Middle"),
            {"middle": "from base import Base\nclass Middle(Base): ...\n", "base": FLAG},
        ),
        ("import base" + HEAD.format(base="base.Base"), {"base": FLAG}),
    ],
)
def test_a_switch_is_found_wherever_it_is_set(source: str, others: dict[str, str]) -> None:
    """Heads with one are the same, whether all are asked for or these."""
    (every,) = (site for name, site in read(source, **others).items() if name == "Tagger")
    assert every.flag is not None
    assert [site.flag for site in flagged(source, **others) if site.name == "Tagger"] == [every.flag]


def test_heads_without_a_switch_are_not_looked_at() -> None:
    """Another module's switch is none of theirs."""
    source = "from base import Base, Other" + HEAD.format(base="Other")
    assert flagged(source, base="class Other(PreTrainedModel): ...\n") == []
    assert len(read(source, base="class Other(PreTrainedModel): ...\n")) == 1
