#!/usr/bin/env bash
# `make test-asan-serve`, `make test-tsan-serve`: the server's unit tests, its whole-program tests and hostile clients with
# a sanitized build; complete, not cut by time. All steps are run, also after one that fails.
# usage: tests/serve_sanitized.sh BUILD CLIENTS
set -uo pipefail
cd "$(dirname "$0")/.."
build=$PWD/$1
export BANYAN=$build/banyan
# A server that a sanitizer complains about ends with an error, which every test sees. Some unit tests ask for impossible
# amounts of memory and expect an error.
export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=1:detect_leaks=0:allocator_may_return_null=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:exitcode=66:allocator_may_return_null=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}

failed=()
step() {  # NAME COMMAND…
  local began=$SECONDS name=$1
  shift
  echo "== $name"
  local status=0
  "$@" || status=$?
  echo "== $name: $([ $status -eq 0 ] && echo passed || echo "FAILED with $status"), $((SECONDS - began)) s"
  [ $status -eq 0 ] || failed+=("$name")
}

for name in serve_test store_test documents_test; do step $name "$build/$name" --gtest_brief=1; done
# Memory of a sanitized program says nothing: tests that measure it are for the release build.
for name in test_api test_limits test_batches test_isolation; do step $name python3 -B tests/serve/$name.py; done
step test_attacks python3 -B tests/serve/test_attacks.py Stops Hosts Disk Bodies.test_promises_and_halves_leave_no_room_taken
step hostile python3 -B tests/serve/hostile.py --clients "$2" --at-once 200 --any-memory
echo "== failed: ${failed[*]:-none}"
[ ${#failed[@]} -eq 0 ]
