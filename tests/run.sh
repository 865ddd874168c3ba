#!/usr/bin/env bash
# `make test`: the tree's own rules (layers, formatting, no disabled tests), then every test of the
# release build. REQUIRES: built (make build).
set -euo pipefail
cd "$(dirname "$0")/.."
python3 tests/check_layers.py
tests/check_format.sh
if git grep -nE 'DISABLED_[A-Z]|GTEST_SKIP\(\) *;' -- '*_test.cc'; then
  echo "a disabled test, or one that skips without saying why (above), is not a test" >&2
  exit 1
fi
ctest --test-dir build/release -j "$(nproc)" --output-on-failure
