#!/usr/bin/env bash
# Every check of the cuda backend in one call on a machine with a GPU, then a few timings.
# usage: tests/gpu.sh [PART ...]     parts: units sanitizer oracles forests times, by default all of
# these; times8 profile
#   BANYAN_BUILD=DIR   programs already built there (banyan, kernels_test); otherwise build/cuda is built
#   BANYAN_GOLDEN=DIR  oracles (default ../shared/golden); skipped where absent
#   BANYAN_LOGS=DIR    where logs go (default: a temporary folder)
set -uo pipefail
cd "$(dirname "$0")/.."
logs=${BANYAN_LOGS:-$(mktemp -d)}
golden=${BANYAN_GOLDEN:-../shared/golden}
bin=${BANYAN_BUILD:-build/cuda}
parts=${*:-units sanitizer oracles forests times}
failed=0
report() { # NAME STATUS NOTE
  printf '%-34s %s  %s\n' "$1" "$([ "$2" = 0 ] && echo ok || echo FAILED)" "$3" | tee -a "$logs/summary"
  [ "$2" = 0 ] || failed=1
}

if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L 2>/dev/null | grep -q GPU; then
  echo "gpu.sh: no GPU on this machine: nothing to check"
  exit 0
fi
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
if [ -z "${BANYAN_BUILD:-}" ]; then
  cmake --preset cuda >"$logs/configure" 2>&1 && cmake --build --preset cuda -j "$(nproc)" >"$logs/build" 2>&1 ||
    { tail -20 "$logs/configure" "$logs/build"; exit 1; }
fi

units() {
  "$bin/kernels_test" --gtest_filter='*cuda*:*Cuda*' --gtest_brief=1 >"$logs/units" 2>&1
  report "kernels_test" $? "$(tail -1 "$logs/units")"
  grep -E 'Failure|FAILED' -A4 "$logs/units" | head -60
}

sanitizer() { # the ugly shapes, not the long ones
  command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer: not here, skipped"; return; }
  timeout 150 compute-sanitizer --error-exitcode 9 "$bin/kernels_test" --gtest_brief=1 \
    --gtest_filter='*RmsNorm*cuda*:*EveryHeadSize*cuda_mixed*:*BrokenKeysOfLater*cuda_mixed_f16:*ChooseAs*cuda_mixed_f16:*StackedParts*cuda*' \
    >"$logs/sanitizer" 2>&1
  report "compute-sanitizer memcheck" $? "$(grep 'ERROR SUMMARY' "$logs/sanitizer" | tail -1)"
}

oracles() {
  [ -d "$golden/models" ] || { echo "oracles: none at $golden, skipped"; return; }
  python3 tests/gpu_oracles.py "$bin/banyan" "$golden" >"$logs/oracles" 2>&1
  report "oracles, precision f32 and mixed" $? "$(tail -1 "$logs/oracles")"
  grep FAIL "$logs/oracles" | head -20
}

forest() { # NAME ARGUMENTS: bench forest compares the strategies bit for bit before it prints times
  local name=$1
  shift
  "$bin/banyan" bench forest --device cuda "$@" >"$logs/forest-$name" 2>&1
  report "forest $name" $? "$(grep -E '^banyan' "$logs/forest-$name" | head -1)"
}

forests() {
  local seed precision
  for seed in 1 2 3; do
    for precision in "f32" "mixed --kv-type f16" "mixed --kv-type bf16" "mixed --kv-type q8"; do
      # shellcheck disable=SC2086
      forest "tiny-$seed-${precision// /}" --shape tiny --precision $precision --seed "$seed" \
        --documents $((2 + seed)) --questions $((3 * seed)) --lengths $((17 * seed)),$((211 * seed)),$((5 + seed)) \
        --max-new 9 --batch-rows $((70 * seed)) --kv-memory 256M --strategies flat,paged,stacked,tree,auto
    done
  done
  forest smollm --shape smollm2-135m --weights bf16 --documents 3 --questions 7 --lengths 60,300,11 \
    --max-new 8 --kv-memory 2G --strategies flat,paged,stacked,tree,auto
}

# The first strategy of a run also chooses the algorithms of the products: it is run twice.
timed() { # SHAPE WORKLOAD ...
  local shape=$1 name
  shift
  local squad="--documents 32 --questions 9 --lengths 47,178,13 --max-new 4 --strategies tree,paged,tree,auto,no-attention"
  local shared="--documents 1 --questions 256 --lengths 16,2032,16 --max-new 32 --strategies tree,paged,tree,no-attention"
  local single="--documents 1 --questions 1 --lengths 16,2032,16 --max-new 64 --strategies tree,paged,no-attention"
  for name in "$@"; do
    # shellcheck disable=SC2086
    forest "$shape-$name" --shape "$shape" --weights bf16 --batch-rows 1024 --kv-memory 24G ${!name}
  done
}
times() { timed qwen3-0.6b squad shared single; }
times8() { timed qwen3-8b shared squad; } # 16 GB of host memory, about a minute to make the weights

profile() { # durations of our kernels, by the hardware counters
  command -v ncu >/dev/null || { echo "ncu: not here, skipped"; return; }
  timeout 120 ncu --clock-control none --csv --metrics gpu__time_duration.sum --launch-count 2600 \
    --kernel-name 'regex:Attend|Merge|Rotate|RmsNorm|SwiGlu|AddKernel|Score' \
    "$bin/banyan" bench forest --device cuda --shape qwen3-0.6b --weights bf16 --batch-rows 1024 --kv-memory 8G \
    --documents 1 --questions 256 --lengths 16,2032,16 --max-new 4 --strategies tree >"$logs/profile" 2>"$logs/profile-errors"
  report "profile" $? ""
  python3 tests/gpu_kernel_times.py "$logs/profile"
}

for part in $parts; do "$part"; done
echo
grep -hE '^(forest|\|)' "$logs"/forest-qwen3* 2>/dev/null
cat "$logs/summary"
exit $failed
