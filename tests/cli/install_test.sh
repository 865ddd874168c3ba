#!/usr/bin/env bash
# What `make install` leaves is enough to build and run a program: the examples, configured by themselves
# against an installed copy. Usage: install_test.sh BUILD_DIRECTORY
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" >"$work/log" || { cat "$work/log"; exit 1; }
"$work/prefix/bin/banyan" --version
cmake -S "$source_dir/examples" -B "$work/examples" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" \
      -DCMAKE_BUILD_TYPE=Release >"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work/examples" --target example_forest >"$work/log" || { cat "$work/log"; exit 1; }
"$work/examples/example_forest"
