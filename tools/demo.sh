#!/usr/bin/env bash
# `make demo`: the shipped model answers questions about a page of text, all at once; then the tour.
set -euo pipefail
cd "$(dirname "$0")/.."
build/release/banyan model better --offer
sample=eval/samples/demo.jsonl
echo "\$ build/release/banyan ask $sample"
build/release/banyan ask "$sample" --output-format text
tools/tour.sh
