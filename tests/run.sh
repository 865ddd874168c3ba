#!/usr/bin/env bash
# `make test`: the tree's own rules (layers, formatting, sizes, no disabled tests), then every test of the
# release build. A test that fails is run once more, alone: what passes then is named at the end. A test that fails twice
# fails the run. BANYAN_TEST_TRIES=1: no second try. The last lines say which tests skipped themselves and what they need.
# REQUIRES: built (make build).
set -euo pipefail
cd "$(dirname "$0")/.."
python3 tests/check_layers.py
tests/check_format.sh
python3 tests/check_shape.py
if git grep -nE 'DISABLED_[A-Z]|GTEST_SKIP\(\) *;' -- '*_test.cc'; then
  echo "a disabled test, or one that skips without saying why (above), is not a test" >&2
  exit 1
fi
python3 -B tests/skipped.py --self-test
log=build/release/Testing/Temporary/LastTest.log
failed=build/release/Testing/Temporary/LastTestsFailed.log
rm -f "$failed"
code=0
ctest --test-dir build/release -j "$(nproc)" --output-on-failure --test-output-size-passed 10000000 || code=$?
skipped=$(python3 -B tests/skipped.py "$log")
trap 'echo "$skipped"' EXIT
if [ "$code" -eq 0 ] || [ "${BANYAN_TEST_TRIES:-2}" -lt 2 ] || [ ! -s "$failed" ]; then exit "$code"; fi
names=$(cut -d: -f2 "$failed" | sort | tr '\n' ' ')
echo "second try: $names"
ctest --test-dir build/release --rerun-failed --output-on-failure
echo "passed only on a second try: $names"
