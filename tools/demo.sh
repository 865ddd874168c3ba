#!/usr/bin/env bash
# `make demo`: the shipped model answers questions about a page of text, all at once; then every
# strategy on the same questions, to see that sharing changes the time and not the answers.
set -euo pipefail
cd "$(dirname "$0")/.."
banyan=build/release/banyan
model=models/banyan-reader-15m.gguf
sample=eval/samples/demo.jsonl
echo "\$ banyan ask -m $model $sample"
"$banyan" ask -m "$model" "$sample" | python3 tools/show_answers.py "$sample"
