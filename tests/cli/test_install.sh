#!/usr/bin/env bash
# What `make install` leaves is enough to build and run a program: the examples, configured by themselves
# against an installed copy. Usage: test_install.sh BUILD_DIRECTORY
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" >"$work/log" || { cat "$work/log"; exit 1; }
"$work/prefix/bin/banyan" --version
# The program finds the model that was installed with it, also after the folder was moved.
mv "$work/prefix" "$work/moved"
[ "$(env -u BANYAN_MODEL "$work/moved/bin/banyan" model path)" = "$work/moved/share/banyan/models/banyan-reader-34m.gguf" ]
mv "$work/moved" "$work/prefix"
[ -s "$work/prefix/share/man/man1/banyan-ask.1.gz" ] && [ -s "$work/prefix/share/doc/banyan/LICENSE" ]
cmake -S "$source_dir/examples" -B "$work/examples" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" \
      -DCMAKE_BUILD_TYPE=Release >"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work/examples" >"$work/log" || { cat "$work/log"; exit 1; }
"$work/examples/example_forest"
"$work/examples/example_stream" | grep -q "all given back"
"$work/prefix/bin/banyan" bench --help | grep -q forest
[ ! -e "$work/prefix/include/program" ]
