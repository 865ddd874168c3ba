#!/usr/bin/env bash
# Every check of the cuda backend in one call on a machine with a GPU: about five minutes.
# usage: tests/gpu.sh [PART ...]     parts: units oracles forests devices shards sanitizers, by default all;
# times times8 w8a8 profile, which measure
#   BANYAN_BUILD=DIR   programs already built there (banyan, kernels_test; model_test, engine_test
#                      and cuda_times where they are); otherwise build/cuda is built
#   BANYAN_GOLDEN=DIR  oracles (default ../shared/golden); skipped where absent
#   BANYAN_LOGS=DIR    where logs go (default: a temporary folder)
set -uo pipefail
cd "$(dirname "$0")/.."
logs=${BANYAN_LOGS:-$(mktemp -d)}
mkdir -p "$logs"
golden=${BANYAN_GOLDEN:-../shared/golden}
bin=${BANYAN_BUILD:-build/cuda}
parts=${*:-units oracles forests devices shards sanitizers}
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
  local shard status=0 pids=()
  for shard in 0 1 2 3; do  # at once: each leaves most of the GPU idle
    GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=$shard timeout 200 "$bin/kernels_test" --gtest_filter='*cuda*:*Cuda*' \
      --gtest_brief=1 >"$logs/units-$shard" 2>&1 &
    pids+=($!)
  done
  for shard in "${pids[@]}"; do wait "$shard" || status=$?; done
  report "kernels_test" $status "$(tail -qn 1 "$logs"/units-? | tr '\n' ' ')"
  grep -hE 'Failure|FAILED' -A4 "$logs"/units-? | head -60
  if [ -x "$bin/cuda_times" ]; then
    timeout 60 "$bin/cuda_times" --check >"$logs/products" 2>&1
    report "products bit for bit" $? "$(tail -2 "$logs/products" | tr '\n' ' ')"
  fi
  [ -x "$bin/engine_test" ] || return
  timeout 100 "$bin/engine_test" --gtest_filter='*Device*:*cuda*:*Cuda*' --gtest_brief=1 >"$logs/engine" 2>&1
  report "engine_test" $? "$(tail -1 "$logs/engine")"
  grep -E 'Failure|FAILED' -A4 "$logs/engine" | head -40
}

devices() { # two engines on one GPU, and one on every GPU that there is: the rows of one
  local devices status name
  for i in $(seq 200); do
    echo "{\"id\":$i,\"context\":\"$(for k in 1 2 3 4 5 6 7 8; do printf 'Ship %d-%d is steered by Anna %d. ' $i $k $((i * k)); done)\",\"questions\":[{\"id\":1,\"question\":\"Who steers ship $i-3?\"},{\"id\":2,\"question\":\"Who steers ship $i-5?\"}]}"
  done >"$logs/devices.jsonl"
  for devices in cuda cuda:0,0 cuda:all; do
    name="$logs/devices-${devices//[:,]/-}"
    timeout 60 "$bin/banyan" ask "$logs/devices.jsonl" --device "$devices" --ordered --quiet --max-new 8 --overwrite \
      -o "$name.jsonl" --receipt "$name.json" >"$name.log" 2>&1 && cmp "$logs/devices-cuda.jsonl" "$name.jsonl" >>"$name.log" 2>&1
    status=$?
    report "devices $devices" $status "$(tail -1 "$name.log")"
  done
}

# A program that may wait in vain: after SECONDS, where its threads are, then its end and that of what it started.
watched() { # NAME SECONDS COMMAND...
  local name=$1 seconds=$2 pid one status start=$SECONDS
  shift 2
  setsid "$@" >"$logs/$name" 2>&1 &
  pid=$!
  while kill -0 $pid 2>/dev/null; do
    if [ $((SECONDS - start)) -ge "$seconds" ]; then
      {
        echo "no end after $seconds s"
        nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv,noheader
        for one in $(pgrep -s $pid); do
          tr '\0' ' ' <"/proc/$one/cmdline" && echo
          command -v gdb >/dev/null && timeout 20 gdb -p "$one" -batch -ex 'thread apply all bt 14' 2>/dev/null
        done
      } >>"$logs/$name" 2>&1
      kill -KILL -- -$pid
    fi
    sleep 0.2
  done
  wait $pid
  status=$?
  grep -qE 'SKIPPED|[^0-9]0 tests' "$logs/$name" && status=1 # on a machine with a GPU nothing is left out
  report "shards: $name, $((SECONDS - start)) s" $status "$(tail -1 "$logs/$name" | cut -c1-150)"
  [ $status = 0 ] || grep -E 'FAIL|Failure|no end|^shard |^#|banyan|_test' -A3 "$logs/$name" | head -60
  return $status
}

shards() { # one model in several shards on one GPU has the answers of one; ends at the first that fails
  [ -x "$bin/model_test" ] || { echo "shards: no $bin/model_test, skipped"; return; }
  watched steps 60 "$bin/model_test" --gtest_filter='*ShardedSteps*' --gtest_print_time=1 || return
  watched recorders 30 "$bin/kernels_test" --gtest_filter='*Recorders*cuda*' --gtest_brief=1 || return
  watched forests 60 "$bin/engine_test" --gtest_filter='ShardsOnCuda.*' --gtest_print_time=1 || return
  watched adapters 30 "$bin/engine_test" --gtest_filter='*OfShardsOnCuda*' --gtest_brief=1 || return
  watched families 60 python3 -B tests/cli/test_shards.py "$bin/banyan" cuda || return
  watched random-forests 60 python3 -B tests/gpu_forests.py "$bin/banyan" cuda 2 shards
}

sanitize() { # TOOL SECONDS TESTS: the ugly shapes, not the long ones
  timeout "$2" compute-sanitizer --tool "$1" --error-exitcode 9 "$bin/kernels_test" --gtest_brief=1 --gtest_filter="$3" \
    >"$logs/$1" 2>&1
  report "compute-sanitizer $1" $? "$(grep -E 'SUMMARY' "$logs/$1" | tail -1)"
}
sanitizers() {
  command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer: not here, skipped"; return; }
  local rows='*RmsNorm*cuda_mixed_f16:*StackedParts*cuda_mixed_f16:CudaQuantised.Embeddings*:CudaQuantised.Stacked*'
  local attention='*EveryHeadSize*cuda_mixed_f16:*BrokenKeysOfLater*cuda_mixed_f16'
  local tokens='*ChooseAs*cuda_mixed_f16:*Choices*OfEveryKind*cuda_mixed_f16:*Choices*OfPanels*cuda_mixed_f16:*Panels*Diverge*cuda_mixed_f16'
  local products='CudaProducts.EveryForm*' states='*StatesTest.Agree*cuda_f32*:*StatesTest.Branches*cuda_f32*'
  local layers='*AttentionLayers*cuda_mixed_f16'
  sanitize memcheck 100 "$rows:*EveryHeadSize*cuda_mixed*:*BrokenKeysOfLater*cuda_mixed*:$layers:$states:$tokens:$products"
  sanitize racecheck 60 "$tokens:CudaQuantised.Embeddings*:*StatesTest.Agree*cuda_f32*"
  # Reported, not judged: docs/cuda.md says what racecheck finds in attention and why it stays.
  timeout 60 compute-sanitizer --tool racecheck "$bin/kernels_test" --gtest_brief=1 --gtest_filter="$attention" \
    >"$logs/racecheck-attention" 2>&1
  printf '%-34s known  %s\n' "racecheck of attention" "$(grep SUMMARY "$logs/racecheck-attention" | tail -1)" |
    tee -a "$logs/summary"
  sanitize initcheck 60 "$attention:$tokens:$rows"
}

oracles() {
  [ -d "$golden/models" ] || { echo "oracles: none at $golden, skipped"; return; }
  python3 tests/gpu_oracles.py "$bin/banyan" "$golden" >"$logs/oracles" 2>&1
  report "oracles" $? "$(tail -1 "$logs/oracles")"
  grep FAIL "$logs/oracles" | head -20
}

forest() { # NAME ARGUMENTS: bench forest compares the strategies bit for bit before it prints times
  local name=$1
  shift
  "$bin/banyan" bench forest --device cuda "$@" >"$logs/forest-$name" 2>&1
  report "forest $name" $? "$(grep -E '^banyan' "$logs/forest-$name" | head -1)"
}

forests() {
  python3 tests/gpu_forests.py "$bin/banyan" >"$logs/forests" 2>&1
  report "random forests" $? "$(tail -1 "$logs/forests")"
  grep FAIL "$logs/forests" | head
  forest tiny-f32 --shape tiny --precision f32 --documents 5 --questions 9 --lengths 51,633,8 --max-new 9 --batch-rows 210 \
    --kv-memory 256M --strategies flat,paged,stacked,tree,auto
  forest smollm --shape smollm2-135m --random --documents 3 --questions 7 --lengths 60,300,11 --max-new 8 --kv-memory 2G \
    --strategies flat,paged,stacked,tree,auto
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
    forest "$shape-$name" --shape "$shape" --random --batch-rows 1024 ${!name}
  done
}
times() { timed qwen3-0.6b squad shared single; }
times8() { timed qwen3-8b shared squad single; }

# The four jobs and the decode rates at the qwen3-8b shape, in bf16 and in 8 bits, after the tests of the latter.
w8a8() {
  local precision job streams
  timeout 200 "$bin/kernels_test" --gtest_filter='CudaInt8*:Int8*' --gtest_brief=1 >"$logs/int8" 2>&1
  report "products in 8 bits" $? "$(tail -1 "$logs/int8")"
  grep -E 'Failure|FAILED' -A4 "$logs/int8" | head -60
  if [ -x "$bin/cuda_times" ]; then
    timeout 100 "$bin/cuda_times" --coded 1 8 16 32 64 128 256 512 1024 4096 2>&1 | tee "$logs/int8-times"
  fi
  for precision in mixed w8a8; do
    for job in squad2 narrativeqa race longhealth "shared --streams 1,32,256 --prefix 2048"; do
      # shellcheck disable=SC2086
      timeout 120 "$bin/banyan" bench $job --device cuda --shape qwen3-8b --random --precision $precision --strategies auto \
        >"$logs/$precision-${job%% *}" 2>&1
      report "$precision ${job%% *}" $? ""
      grep -E '^[|]|rror' "$logs/$precision-${job%% *}" || tail -5 "$logs/$precision-${job%% *}"
    done
  done
}

profile() { # durations of our kernels, by the hardware counters
  command -v ncu >/dev/null || { echo "ncu: not here, skipped"; return; }
  timeout 120 ncu --clock-control none --csv --metrics gpu__time_duration.sum --launch-count 2600 \
    --kernel-name 'regex:Attend|Merge|Rotate|RmsNorm|SwiGlu|AddKernel|Chunk|Finish' \
    "$bin/banyan" bench forest --device cuda --shape qwen3-0.6b --random --batch-rows 1024 --kv-memory 8G \
    --documents 1 --questions 256 --lengths 16,2032,16 --max-new 4 --strategies tree >"$logs/profile" 2>"$logs/profile-errors"
  report "profile" $? ""
  python3 tests/gpu_kernel_times.py "$logs/profile"
}

for part in $parts; do "$part"; done
echo
grep -hE '^(forest|\|)' "$logs"/forest-qwen3* 2>/dev/null
cat "$logs/summary"
exit $failed
