#!/usr/bin/env bash
# Parity on one GPU, in at most six minutes: 80 heads in float32 and bfloat16, and the curves. `--cpu` makes a dry run.
# Needs torch, transformers and accelerate, and no network; run it from anywhere, with any python: PYTHON=... run.sh
# Results: $OUT, or gpu-results/ in the working directory. Exit code as tests/gpu/measure.py says; 2 is "no GPU here".
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1
export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES:-0}"
exec timeout 360 "${PYTHON:-python3}" "$here/tests/gpu/measure.py" --out "${OUT:-gpu-results}" "$@"
