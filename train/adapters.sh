#!/usr/bin/env bash
# One adapter for all tasks, for each of three models, on one GPU.
# Usage: train/adapters.sh DATA OUT NAME [SECONDS] …   NAME: smollm2, qwen05, qwen15
#        train/adapters.sh DATA OUT wait [MOST_SECONDS]
# DATA has the model files (smollm2.gguf, qwen05.gguf, qwen15.gguf), texts.jsonl.xz, documents*.jsonl.xz and
# measured-smollm2.jsonl.xz, measured-qwen.jsonl.xz (train/README.md). A NAME starts in the background and writes to
# OUT/NAME and OUT/NAME.log; the same command goes on after an interruption. `wait` returns when all that were started
# have ended, or after MOST_SECONDS, and prints the last lines of their logs. Needs PyTorch >= 2.9 and numpy.
# OPTIONS is added to the options of train.adapter.
set -euo pipefail
data=$(realpath "${1:?data}") out=$(realpath -m "${2:?folder}") name=${3:?name}
cd "$(dirname "$0")/.."
mkdir -p "$out"
export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
if [ "$name" = wait ]; then
  until=$((SECONDS + ${4:-540})) busy=1
  while [ "$busy" = 1 ] && [ "$SECONDS" -lt "$until" ]; do
    busy=0
    for pid in "$out"/*.pid; do if kill -0 "$(cat "$pid")" 2> /dev/null; then busy=1; fi; done
    sleep 1
  done
  tail -n 4 "$out"/*.log
  exit "$busy"
fi
case $name in
  smollm2) base=HuggingFaceTB/SmolLM2-135M-Instruct seconds=150 vocabulary=smollm2
    options=(--rows 8 --rate 7e-4 --null-weight 1.2 --rank 32 --begin-with models/smollm2-reader) ;;
  qwen05) base=Qwen/Qwen2.5-Coder-0.5B-Instruct seconds=230 vocabulary=qwen options=(--rate 6e-4 --null-weight 1.5) ;;
  qwen15) base=Qwen/Qwen2.5-Coder-1.5B-Instruct seconds=330 vocabulary=qwen options=(--rate 4e-4 --null-weight 1.5) ;;
  *) echo "adapters.sh: expected smollm2, qwen05, qwen15 or wait, found $name" >&2; exit 2 ;;
esac
if [ -f "$out/$name.pid" ] && kill -0 "$(cat "$out/$name.pid")" 2> /dev/null; then echo "$name: running"; exit; fi
setsid "${PYTHON:-python3}" -m train.adapter --model "$data/$name.gguf" --texts "$data/texts.jsonl.xz" \
  --documents "$data"/documents*.jsonl.xz --measured "$data/measured-$vocabulary.jsonl.xz" --out "$out/$name" \
  --base-name "$base" --seconds "${4:-$seconds}" "${options[@]}" ${OPTIONS:-} < /dev/null >> "$out/$name.log" 2>&1 &
echo $! > "$out/$name.pid"
echo "$name: started"
