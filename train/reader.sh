#!/usr/bin/env bash
# From question files to a reading adapter and its scores. Usage: train/reader.sh DATA MODEL.gguf OUT [OPTIONS of reader_lora]
# One GPU for the training; needs PyTorch, Transformers and PEFT, and the release binary for tokens and scores.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?folder of question files} model=${2:?model.gguf} out=${3:?folder}
shift 3
mkdir -p "$out"
python3 -m train.reader_data --data "$data" --out "$out/examples.jsonl.gz"
python3 -m train.reader_tokens --in "$out/examples.jsonl.gz" --model "$model" --out "$out/reader.npz"
python3 -m train.reader_lora --model "$model" --data "$out/reader.npz" --out "$out" "$@"
python3 -m eval.reading -m "$model" --adapter "$out/adapter" --data "$data" --json "$out/ask.json"
