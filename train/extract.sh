#!/usr/bin/env bash
# Trains the extraction adapter and, beside it, all weights, on the arrays of train/extract_mix.py. Both runs continue
# in the background and write to OUT/lora and OUT/full; called again, they resume from their checkpoints. One GPU.
# Usage: train/extract.sh MODEL.gguf OUT DATA.npz …
# (SECONDS_LORA=400, SECONDS_FULL=330; STEPS, DEVICE for a short try)
set -euo pipefail
model=$(realpath "${1:?model.gguf}") out=$(realpath -m "${2:?folder}")
shift 2
data=()
for file in "${@:?arrays}"; do data+=("$(realpath "$file")"); done
cd "$(dirname "$0")/.."
start() {  # name, options
  local name=$1
  shift
  mkdir -p "$out/$name"
  if [ -e "$out/$name/done" ]; then echo "$name: done"; return; fi
  if [ -e "$out/$name/pid" ] && kill -0 "$(cat "$out/$name/pid")" 2>/dev/null; then echo "$name: running"; return; fi
  setsid bash -c 'echo $$ > "$1/pid"; shift; "${@:2}" >> "$1/run.log" 2>&1 && touch "$1/done"' run \
    "$out/$name" "$out/$name" "${PYTHON:-python3}" -m train.skeleton_lora --model "$model" --data "${data[@]}" \
    --out "$out/$name" --values mixed --device "${DEVICE:-cuda}" --epochs 4 --longest 2200 \
    --score-every "${SCORE_EVERY:-60}" --score-limit "${SCORE_LIMIT:-500}" --write-limit "${WRITE_LIMIT:-600}" \
    --batch-tokens "${BATCH_TOKENS:-24000}" --steps "${STEPS:-0}" --resume "$@" < /dev/null > /dev/null 2>&1 &
  echo "$name: started"
}
start lora --rank 32 --alpha 64 --dropout 0 --rate 8e-4 --seconds "${SECONDS_LORA:-400}" --save-every 60
start full --full --rate 1.2e-4 --seconds "${SECONDS_FULL:-330}" --save-every 150
