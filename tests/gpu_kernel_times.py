#!/usr/bin/env python3
"""Durations per kernel out of `ncu --csv` output (gpu__time_duration.sum): calls, median of the last quarter
of the calls (decode steps come last), largest. usage: gpu_kernel_times.py FILE"""
import csv
import re
import statistics
import sys

times = {}
with open(sys.argv[1]) as lines:
    rows = csv.reader(line for line in lines if line.startswith('"'))
    header = next(rows)
    name, value, unit = (header.index(k) for k in ("Kernel Name", "Metric Value", "Metric Unit"))
    for row in rows:
        scale = {"ns": 1e-3, "us": 1.0, "ms": 1e3}.get(row[unit])
        if scale is not None:
            kernel = re.sub(r"\(.*", "", row[name])
            times.setdefault(kernel, []).append(float(row[value].replace(",", "")) * scale)
print("| kernel | calls | median of the last quarter, us | largest, us |\n|---|---|---|---|")
for kernel, values in sorted(times.items(), key=lambda item: -sum(item[1])):
    late = values[-max(1, len(values) // 4):]
    print(f"| {kernel[:60]} | {len(values)} | {statistics.median(late):.1f} | {max(values):.1f} |")
