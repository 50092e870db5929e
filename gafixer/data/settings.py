"""Where a number of steps is written outside the code that uses it, as data."""

from __future__ import annotations

__all__ = ["EXTENSIONS", "MENTIONED", "NAMED", "NAMES", "SKIPPED"]

#: Names of a number of steps (or of what a batch is split into), as flags, keys, variables and fields.
NAMED = (
    r"(?<![\w.])(?:[a-z]\w*[_-])?(?:accum\w*|grad[_-]?acc\w*)(?:[_-]\w+)*|(?<![\w.])accumulate[_-]grad[_-]batches"
    r"|device_train_microbatch_size|(?<![\w.])update[_-]freq|(?<![\w.])(?:num[_-]|n[_-])?micro[_-]?(?:batches|steps)"
)
#: What a file must hold, in small letters, for one of them to be in it.
MENTIONED = (b"accum", b"gradacc", b"grad_acc", b"grad-acc", b"micro", b"update_freq", b"update-freq")

#: Files that may say it: DeepSpeed and Accelerate configurations, Hydra and Lightning ones, launch scripts.
EXTENSIONS = (
    ".json",
    ".yaml",
    ".yml",
    ".sh",
    ".bash",
    ".slurm",
    ".sbatch",
    ".toml",
    ".cfg",
    ".ini",
    ".env",
    ".mk",
    ".py",
)
NAMES = frozenset({"Makefile", "makefile", "Dockerfile", "justfile", ".env"})

#: Folders that hold nobody's settings.
SKIPPED = frozenset(
    {
        "node_modules",
        "site-packages",
        "__pycache__",
        "build",
        "dist",
        "venv",
        "env",
        "data",
        "datasets",
        "tests",
        "test",
    }
)
