"""What the patch costs, paired in one run: `python -m tests.benchmarks.patch_cost [--windows N]`.

Every second window of one training run is patched. Prints, for a model of about 50 M parameters, the time of a patched
window over that of an unpatched one, and for a 12-layer model of hidden size 32 the host time that the patch adds per
microbatch. Those times are of this process alone, so a busy machine changes little. Last, the wall-clock time of
`import gafixer.patch` over that of `pass`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from typing import Any

import torch
from transformers import BertConfig, BertForTokenClassification, Trainer, TrainerCallback, TrainingArguments

import gafixer.patch
from tests.benchmarks.timing import Command, compare

STEPS = 4


class Turns(TrainerCallback):
    """Switches the patch after each window and keeps the times of both kinds."""

    def __init__(self) -> None:
        self.seconds: dict[bool, list[float]] = {True: [], False: []}
        self.on = False
        self.begun = time.process_time()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """A window is over."""
        self.seconds[self.on].append(time.process_time() - self.begun)
        self.on = not self.on
        (gafixer.patch.apply if self.on else gafixer.patch.revert)()
        self.begun = time.process_time()


def measured(config: BertConfig, length: int, windows: int) -> dict[bool, list[float]]:
    """Seconds per window, unpatched and patched, in pairs; the first pairs warm up and are dropped."""
    model = BertForTokenClassification(config)
    rows = []
    for row in range(2 * STEPS * windows):
        ids = torch.randint(5, 50, (length,))
        labels = torch.where(torch.arange(length) < 1 + row % length, ids % 2, -100)
        rows.append({"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels})
    turns = Turns()
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=STEPS,
            max_steps=windows,
            logging_strategy="no",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = Trainer(model=model, args=settings, train_dataset=rows, callbacks=[turns])
        gafixer.patch.revert()
        turns.begun = time.process_time()
        trainer.train()
    gafixer.patch.revert()
    return {on: values[3:] for on, values in turns.seconds.items()}


def main() -> None:
    """The three figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=60)
    windows = parser.parse_args().windows
    wide: dict[str, Any] = {"hidden_size": 640, "num_attention_heads": 10, "intermediate_size": 2560}
    big = BertConfig(**wide, num_hidden_layers=8, vocab_size=16000)
    parameters = sum(p.numel() for p in BertForTokenClassification(big).parameters())
    times = measured(big, 64, max(windows // 3, 12))
    ratios = [patched / plain for plain, patched in zip(times[False], times[True], strict=False)]
    ratio = statistics.median(ratios)
    print(f"{parameters / 1e6:.0f} M parameters: patched / unpatched {ratio:.4f} (median of {len(ratios)})")
    narrow: dict[str, Any] = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    small = BertConfig(**narrow, num_hidden_layers=12, vocab_size=100)
    times = measured(small, 32, windows * 4)
    added = [(patched - plain) / STEPS for plain, patched in zip(times[False], times[True], strict=False)]
    print(f"12 layers of 32: {1e3 * statistics.median(added):.3f} ms added per microbatch (median of {len(added)})")
    bare, imported = (Command(code, (sys.executable, "-c", code), {}) for code in ("pass", "import gafixer.patch"))
    ours, theirs = compare(imported, bare, pairs=15).seconds
    print(f"import gafixer.patch: {ours - theirs:.3f} s over pass ({theirs:.3f} s)")


if __name__ == "__main__":
    main()
