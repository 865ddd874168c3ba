#!/usr/bin/env bash
# New editions of both readers on one GPU, side by side: the adapter for SmolLM2-135M-Instruct, and the small model.
# Usage: train/readers.sh TEXTS.jsonl.xz SMOLLM2.gguf OUT [SECONDS]
# TEXTS comes from `python3 -m train.reading_texts`. Needs PyTorch >= 2.9.
# Three processes: the adapter; the large model, which asks and answers about everyday passages for the first three
# quarters of the time; the small model, which reads those answers as they come. The same command resumes after an
# interruption. PARTS chooses among "large written small"; LARGE_OPTIONS, WRITTEN_OPTIONS and SMALL_OPTIONS are added to
# their options. A part that fails leaves the others alone.
set -uo pipefail
cd "$(dirname "$0")/.."
texts=${1:?texts} large=${2:?model.gguf} out=${3:?folder} seconds=${4:-450}
parts=${PARTS:-large written small}
export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} TOKENIZERS_PARALLELISM=false
mkdir -p "$out/result"
pids=()
begin() {  # name, module, options: beside this script, its output into a log
  local name=$1
  shift
  case " $parts " in *" $name "*) ;; *) return ;; esac
  [ "$name" = written ] && [ -f "$out/written/0.jsonl.gz" ] && return
  python3 -m "$@" >> "$out/$name.log" 2>&1 &
  pids+=($!)
  echo $! > "$out/$name.pid"
}
begin large train.reading_leg --as lora --model "$large" --texts "$texts" --out "$out/large" \
  --seconds "$seconds" --workers 3 ${LARGE_OPTIONS:-}
begin written train.reading_written --model "$large" --adapter models/smollm2-reader --texts "$texts" \
  --out "$out/written" --seconds $((seconds * 75 / 100)) --tune-seconds $((seconds * 28 / 100)) --workers 2 \
  ${WRITTEN_OPTIONS:-}
begin small train.reading_leg --as small --model models/banyan-reader-34m.gguf --texts "$texts" \
  --written "$out/written" --out "$out/small" --seconds "$seconds" --rows 16 --rate 0.004 --adam-rate 4e-4 \
  --warmup 100 --decay-from 0.3 --shares 0.2 0.16 0.2 --null-weight 0.8 --workers 4 ${SMALL_OPTIONS:-}
ended=0
for pid in "${pids[@]}"; do wait "$pid" || ended=1; done
for name in large small; do  # what the repository gets, small enough to carry
  [ -f "$out/$name/run.json" ] || continue
  mkdir -p "$out/result/$name"
  cp "$out/$name"/{run.json,log.jsonl,calibration.jsonl} "$out/result/$name/"
  [ -d "$out/$name/adapter" ] && cp -r "$out/$name/adapter" "$out/result/$name/"
  [ -f "$out/$name/reader.gguf" ] && cp "$out/$name/reader.gguf" "$out/result/$name/"
done
tail -n 2 "$out"/*.log
exit $ended
