"""Where a number of steps is written outside the code that uses it, as data."""

from __future__ import annotations

__all__ = ["EXTENSIONS", "KEYS", "NAMES", "SKIPPED"]

#: How it is spelled -> the name that the framework knows it by.
KEYS = {
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "gradient-accumulation-steps": "gradient_accumulation_steps",
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "gradient_accumulation_steps",
    "accumulate_grad_batches": "accumulate_grad_batches",
    "accumulate-grad-batches": "accumulate_grad_batches",
    "device_train_microbatch_size": "device_train_microbatch_size",
}

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
