"""TRL, PEFT and sentence-transformers, where they are installed.

Fine-tuning meets the reference. Losses that compare the rows of a microbatch train as they do without the patch, to
the bit, in windows of uneven microbatches, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import transformers
from packaging.version import Version
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import gafixer.patch
from gafixer.parity.figures import relative_error
from tests.patch import tiny

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RELEASE = Version(transformers.__version__)
DIVIDES_ONCE = pytest.mark.skipif(
    Version("4.46") <= RELEASE < Version("4.48") or Version("5.2") <= RELEASE < Version("5.5.4"),
    reason="Transformers divides such a loss twice here, or never",
)

pytestmark = pytest.mark.filterwarnings("ignore")  # what these libraries warn of is theirs

WORDS = ("<pad>", "<s>", "</s>", "<unk>", *"abcdefghijklmnopqrst")
TEXTS = ("a b c d e f g h i j k", "b", "c d", "d e f g h i j", "e f", "f", "g h i j k l m n o", "h", "i j", "k l m")
"""Ten: microbatches of three and windows of two leave a short microbatch, and a short window."""


def vocabulary() -> PreTrainedTokenizerFast:
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="<unk>")
    made = tokenizers.Tokenizer(words)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]  # transformers leaves it untyped
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    heads: dict[str, Any] = {"num_attention_heads": 2, "num_key_value_heads": 2}
    special: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(WORDS), **sizes, **heads, **special))


def arguments(folder: Path, batch: int, steps: int) -> dict[str, Any]:
    return {
        "output_dir": str(folder),
        "per_device_train_batch_size": batch,
        "gradient_accumulation_steps": steps,
        "num_train_epochs": 2,
        "learning_rate": 1e-2,
        "max_grad_norm": 0.0,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        "bf16": False,
        "seed": 1,
    }


def weights(model: Any) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1).clone() for p in model.parameters()])


def same_to_the_bit(train: Callable[[], torch.Tensor]) -> bool:
    """Whether a run ends in the same weights with the patch and without."""
    with gafixer.patch.patched(on=False):
        without = train()
        assert torch.equal(train(), without), "the run itself does not repeat"
    with gafixer.patch.patched():
        return torch.equal(train(), without)


@pytest.mark.parametrize("adapted", [False, True], ids=["whole model", "LoRA"])
def test_sft_meets_the_reference(tmp_path: Path, adapted: bool) -> None:
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    if adapted:
        peft = pytest.importorskip("peft")
    tokenizer = vocabulary()
    rows = datasets.Dataset.from_list([{"text": text} for text in TEXTS[:8]])

    def caught(batch: int, steps: int) -> torch.Tensor:
        model: Any = llama()
        if adapted:
            torch.manual_seed(1)
            adapter = peft.LoraConfig(target_modules=["q_proj", "v_proj"], r=2, task_type="CAUSAL_LM")
            adapter.init_lora_weights = False
            model = peft.get_peft_model(model, adapter)
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1.0)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
        settings = trl.SFTConfig(**{**arguments(tmp_path, batch, steps), "num_train_epochs": 1})
        trainer = trl.SFTTrainer(
            model=model,
            args=settings,
            train_dataset=rows,
            processing_class=tokenizer,
            optimizers=(optimizer, scheduler),
        )
        before = weights(model)
        trainer.train()
        return before - weights(model)

    with gafixer.patch.patched():
        assert relative_error(caught(2, 4), caught(8, 1)) < 3e-6


@DIVIDES_ONCE
def test_preferences_are_unchanged(tmp_path: Path) -> None:
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    tokenizer = vocabulary()
    pairs = [{"prompt": "a b", "chosen": f" {text}", "rejected": f" {text} t"} for text in TEXTS]

    def train() -> torch.Tensor:
        trainer = trl.DPOTrainer(
            model=llama(),
            ref_model=llama(),
            args=trl.DPOConfig(**arguments(tmp_path, 3, 2)),
            train_dataset=datasets.Dataset.from_list(pairs),
            processing_class=tokenizer,
        )
        trainer.train()
        return weights(trainer.model)

    assert same_to_the_bit(train)


@DIVIDES_ONCE
def test_groups_are_unchanged(tmp_path: Path) -> None:
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    tokenizer = vocabulary()
    prompts = [{"prompt": text} for text in TEXTS]

    def reward(completions: list[str], **_: Any) -> list[float]:
        return [float(sum(map(ord, completion)) % 5) for completion in completions]

    def train() -> torch.Tensor:
        settings = {
            **arguments(tmp_path, 4, 2),
            "num_generations": 4,
            "max_completion_length": 6,
            "num_train_epochs": 1,
        }
        trainer = trl.GRPOTrainer(
            model=llama(),
            reward_funcs=reward,
            args=trl.GRPOConfig(**settings),
            train_dataset=datasets.Dataset.from_list(prompts),
            processing_class=tokenizer,
        )
        trainer.train()
        return weights(trainer.model)

    assert same_to_the_bit(train)


@DIVIDES_ONCE
@pytest.mark.parametrize("kind", ["MultipleNegativesRankingLoss", "CosineSimilarityLoss", "CoSENTLoss"])
def test_embedding_losses_are_unchanged(tmp_path: Path, kind: str) -> None:
    library, datasets = pytest.importorskip("sentence_transformers"), pytest.importorskip("datasets")
    losses = pytest.importorskip("sentence_transformers.losses")
    model = tiny.bert(transformers.BertModel, vocab_size=len(WORDS))
    model.save_pretrained(tmp_path / "model")
    vocabulary().save_pretrained(tmp_path / "model")
    scored = {} if kind == "MultipleNegativesRankingLoss" else {"score": 0.25}
    rows = [
        {"sentence1": text, "sentence2": f"t {text}", **{name: value * (place % 4) for name, value in scored.items()}}
        for place, text in enumerate(TEXTS)
    ]

    def train() -> torch.Tensor:
        embedder = library.SentenceTransformer(str(tmp_path / "model"), device="cpu")
        trainer = library.SentenceTransformerTrainer(
            model=embedder,
            args=library.SentenceTransformerTrainingArguments(**arguments(tmp_path, 3, 2)),
            train_dataset=datasets.Dataset.from_list(rows),
            loss=getattr(losses, kind)(embedder),
        )
        trainer.train()
        return weights(trainer.model)

    assert same_to_the_bit(train)
