#!/usr/bin/env bash
# From nothing to the model file: tokenizer, one leg on the GPU, two calibrations on the CPU, export, plot.
# One GPU for the second step, PyTorch 2.9 or newer with FlexAttention. Usage: train/all.sh [SECONDS_ON_THE_GPU]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-486}
python3 -m train.build_tokenizer
python3 -m train.leg --out train/runs/model --seed 2 --steps 9600 --seconds "$seconds" --decay-from 0.5
python3 -m train.calibrate --in train/runs/model --out train/runs/calibrated1
python3 -m train.calibrate --in train/runs/calibrated1 --out train/runs/calibrated --seed 8 --steps 180 --z 0.2
python3 -m train.export --in train/runs/calibrated --gguf train/runs/banyan-reader-15m.gguf
python3 -m train.plot --in train/runs/calibrated --json train/runs/training-log.json --svg train/runs/training.svg
