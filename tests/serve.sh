#!/usr/bin/env bash
# `make test-serve`: the server with the packages that people ask it with, which come over the network once, and 10 000
# hostile clients.
# REQUIRES: built (make build), python3 with venv.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh python3-venv
export BANYAN=$PWD/build/release/banyan
encoder=$("$BANYAN" model get all-minilm-l6-v2)
for name in openai langchain llama_index litellm; do
  BANYAN_TEST_ENCODER=$(dirname "$encoder") python3 -B tests/serve/test_client_$name.py
done
for name in test_api test_limits test_batches test_attacks test_isolation; do python3 -B tests/serve/$name.py; done
python3 -B tests/serve/hostile.py --clients "${CLIENTS:-10000}"
