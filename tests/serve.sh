#!/usr/bin/env bash
# `make test-serve`: the server with the packages that people ask it with, which come over the network once, and 10 000
# hostile clients.
# REQUIRES: built (make build), python3 with venv.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh python3-venv
export BANYAN=$PWD/build/release/banyan
venv=build/serve-venv
[ -x $venv/bin/python ] || python3 -m venv $venv
$venv/bin/pip install --quiet openai langchain-openai openapi-spec-validator
encoder=$("$BANYAN" model get all-minilm-l6-v2)
BANYAN_TEST_ENCODER=$(dirname "$encoder") $venv/bin/python tests/serve/openai_client.py
for name in test_api test_limits test_batches test_attacks test_isolation; do python3 -B tests/serve/$name.py; done
python3 -B tests/serve/hostile.py --clients "${CLIENTS:-10000}"
