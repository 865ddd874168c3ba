#!/usr/bin/env bash
# `make tidy`: the checks of .clang-tidy on C++ sources. FILES: their names, or "all"; empty: those that differ from the
# commit BASE. Fails when there is a finding. REQUIRES: build/release configured, clang-tidy-16.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${FILES:-}" in
  all) files=$(git ls-files 'src/*.cc' 'apps/*.cc') ;;
  "") files=$(git diff --name-only --diff-filter=d "${BASE:-main}" -- 'src/*.cc' 'apps/*.cc') ;;
  *) files=$FILES ;;
esac
[ -n "$files" ] || { echo "tidy: no file differs from ${BASE:-main}"; exit 0; }
# Unity builds have no commands of single files: a configuration without them has, and nothing of it is compiled.
cmake --preset plain >/dev/null
# Flags that only GCC knows; generated headers stand where the release build makes them.
sed -e 's/-Wno-restrict//g' build/plain/compile_commands.json > build/plain/tidy.json
mkdir -p build/tidy && mv build/plain/tidy.json build/tidy/compile_commands.json
# shellcheck disable=SC2086  # one word a file
printf '%s\n' $files | xargs -P "${JOBS:-2}" -n 1 clang-tidy-16 -p build/tidy --quiet --warnings-as-errors='*'
echo "tidy: nothing found in $(printf '%s\n' $files | wc -l) files"
