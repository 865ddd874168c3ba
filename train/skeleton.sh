#!/usr/bin/env bash
# From documents with their values to an extraction adapter.
# Usage: [LABELS=…] train/skeleton.sh DOCS.jsonl SCHEMA.json MODEL.gguf OUT [OPTIONS of skeleton_lora]
# LABELS: data (the documents' own `values`), self, or the output file of another run. One GPU for the training, or
# `--device cpu`; needs PyTorch, Transformers and PEFT, and the release binary for tokens and layout.
set -euo pipefail
docs=$(realpath "${1:?documents}") schema=$(realpath "${2:?schema}")
model=$(realpath "${3:?model.gguf}") out=$(realpath -m "${4:?folder}")
labels=${LABELS:-data}
[ "$labels" = data ] || [ "$labels" = self ] || labels=$(realpath "$labels")
shift 4
cd "$(dirname "$0")/.."
mkdir -p "$out"
python3 -m train.skeleton_data --docs "$docs" --schema "$schema" --model "$model" --labels "$labels" \
  --out "$out/extract.npz"
python3 -m train.skeleton_lora --model "$model" --data "$out/extract.npz" --out "$out" \
  --base-name "$(basename "$model")" "$@"
