#!/usr/bin/env bash
# Adds cuBLAS to a CUDA toolkit that came without it, from NVIDIA's package on the Python index, so that CMake finds
# CUDA::cublasLt. Enough to compile and link; a GPU needs a whole toolkit. Does nothing where cublasLt.h is there.
set -euo pipefail
version=13.1.1.3  # of nvidia-cublas; of the same CUDA as nvcc
nvcc=$(command -v nvcc) || { echo "cuda_libraries: no nvcc here"; exit 1; }
toolkit=$("$nvcc" -v --dryrun -E -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p' | head -1)
target=$(find "$(readlink -f "$toolkit")/targets" -mindepth 1 -maxdepth 1 -name '*-linux' | head -1)
[ -n "$target" ] || { echo "cuda_libraries: $toolkit has no folder targets/*-linux"; exit 1; }
[ -e "$target/include/cublasLt.h" ] && exit 0
python3 -m pip install -q --no-deps --target "$target/extra" "nvidia-cublas==$version"
package=$(dirname "$(find "$target/extra" -name cublasLt.h | head -1)")/..
ln -sfn "$package"/include/* "$target/include/"
for library in "$package"/lib/*.so.*; do
  name=$(basename "$library")
  ln -sfn "$library" "$target/lib/$name"
  ln -sfn "$library" "$target/lib/${name%%.so*}.so"
done
echo "cuda_libraries: cuBLAS $version added to $target"
