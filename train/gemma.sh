#!/usr/bin/env bash
# A reading adapter for Gemma 3 270M (the base model) on one GPU: the mixture of `train/readers.sh`, prompts without a chat template.
# Usage: train/gemma.sh TEXTS.jsonl.xz GEMMA.gguf OUT [SECONDS] [more options of train.reading_leg]     (PyTorch >= 2.9)
# OUT/adapter is the best state so far at any time; the same command goes on after an interruption.
set -euo pipefail
cd "$(dirname "$0")/.."
texts=${1:?texts} model=${2:?model.gguf} out=${3:?folder} seconds=${4:-440}
shift $(($# < 4 ? $# : 4))
export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
mkdir -p "$out"
exec python3 -m train.reading_leg --as lora --model "$model" --texts "$texts" --out "$out" --seconds "$seconds" --base-name google/gemma-3-270m \
  --rank 32 --alpha 64 --rate 6e-4 --columns 256 --workers "${WORKERS:-6}" "$@"
