#!/usr/bin/env bash
# The second edition of the shipped reader, from question files and SmolLM2-135M-Instruct. One GPU (H200: 18 minutes); PyTorch >= 2.9.
# Usage: train/reader2.sh EXAMPLES.jsonl.gz SMOLLM2.gguf OUT [SECONDS]    (EXAMPLES: python3 -m train.reader_data)
# Texts are written, asked about and answered by the large model in the background; the small one trains beside it and reads them as they come.
# TRAIN_OPTIONS and WRITE_OPTIONS are added to the options of train.leg and train.written.
# If that part fails, training goes on without it. A whole state is saved every 90 s and is what is exported if training should end early.
set -uo pipefail
cd "$(dirname "$0")/.."
examples=${1:?question examples} large=${2:?model.gguf} out=${3:?folder} total=${4:-1080}
export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=2 TOKENIZERS_PARALLELISM=false
natural=train/natural
[ -n "$(ls $natural/*.txt 2> /dev/null)" ] || natural=$(dirname "$examples")/natural
mkdir -p "$out/written" "$out/result"
began=$SECONDS
left() { echo $((total - (SECONDS - began) - ${1:-0})); }
say() { echo "== $((SECONDS - began)) s: $*"; }

say "writing in the background"
python3 -m train.written --model "$large" --examples "$examples" --natural "$natural" --out "$out/written" \
  --seconds $((total * 55 / 100)) --write-seconds $((total * 6 / 100)) --tune-seconds $((total * 15 / 100)) ${WRITE_OPTIONS:-} > "$out/written.log" 2>&1 &
writer=$!

python3 -m train.prune --model "$large" --examples "$examples" --out "$out/pruned" ${PRUNE_OPTIONS:-} || exit 1
say "pruned"
train() {  # rows steps and other options
  python3 -m train.leg --in "$out/pruned" --out "$out/model" --tokenizer train/tokenizer8k --examples "$examples" --natural "$natural" --written "$out/written" \
    --seconds "$(left 80)" --lr 0.012 --adam-lr 1e-3 --weight-decay 0.004 --warmup 200 --decay-from 0.35 --quantize-from 0.25 --z 1e-3 --z-from 0.4 \
    --workers 6 --every 100 --score-every 10 --held 1 "$@" ${TRAIN_OPTIONS:-}
}
export_model() {
  python3 -m train.export --in "$out/model" --gguf "$out/result/reader.gguf" --kind q4_0 --tokenizer train/tokenizer8k --name banyan-reader-34m \
    --description "Reads short answers and attributes out of a text. Cut from SmolLM2-135M-Instruct and trained on." &&
    (cd "$out/result" && split -b 12M -d reader.gguf reader.gguf. && sha256sum reader.gguf > SHA256)
}
ended=0
train --rows 16 --steps 11000 || ended=$?
if [ $ended -ne 0 ] && [ -f "$out/model/config.json" ] && [ "$(left 80)" -gt 200 ]; then
  say "training ended with $ended; on from the last state, more slowly"
  cp -r "$out/model" "$out/resumed"
  train --rows 16 --steps 8000 --in "$out/resumed" --lr 0.005 || say "training ended with $?"
fi
if [ ! -f "$out/model/config.json" ] && [ "$(left 80)" -gt 200 ]; then
  say "once more, without compiled layers"
  train --rows 8 --steps 9000 --eager || say "training ended with $?"
fi
kill $writer 2> /dev/null
say "writer: $(tail -1 "$out/written.log")"
export_model && say "exported" || say "export failed"
