#!/usr/bin/env bash
# `make release`: everything that a version is published as, in build/release-VERSION/. All of it is built from the
# source tarball, with the commit's time as the only clock, so that two runs can be compared by SHA256SUMS.
#   WHEEL=OFF      leaves the wheel out        PYTHON=python3.12   the Python that builds it (3.12 or newer: abi3)
#   OUT=FOLDER     another folder              CMAKE_CXX_COMPILER_LAUNCHER=…   instead of ccache with an empty cache
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^#define BANYAN_VERSION "\(.*\)"/\1/p' include/banyan/version.h)
grep -q "^## \[$version\] – 20[0-9-]*$" CHANGELOG.md || { echo "release: CHANGELOG.md has no date for $version" >&2; exit 1; }
git diff --quiet HEAD || { echo "release: files differ from the commit" >&2; exit 1; }
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
umask 022
machine=$(uname -m)
out=$(realpath -m "${OUT:-build/release-$version}")
work=$out/work
rm -rf "$out" && mkdir -p "$work"

# pack FOLDER FILE: a tar of $work/FOLDER that says nothing about this machine.
pack() {
  tar --create --directory "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --format=gnu "$1" | gzip -9 --no-name > "$2"
}

echo "release: source"
name=banyan-$version
git archive --format=tar --prefix="$name/" HEAD | gzip -9 --no-name > "$out/$name.tar.gz"
tar --extract --gzip --directory "$work" --file "$out/$name.tar.gz"
source=$work/$name
# Paths of this machine go nowhere. Line numbers would be stripped in the end, but an ELF's build-id is of what was linked.
flags="-O2 -DNDEBUG -ffile-prefix-map=$source=/usr/src/$name"
# The wheel takes most of what the program compiled. The cache is of this run: two runs are compared as two compilations.
if [ -z "${CMAKE_CXX_COMPILER_LAUNCHER:-}" ] && command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_DIR=$work/ccache CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1
  unset CCACHE_CONFIGPATH CCACHE_REMOTE_STORAGE
fi

echo "release: program"
cmake -S "$source" -B "$source/build/release" -G Ninja -D CMAKE_BUILD_TYPE=Release -D CMAKE_INSTALL_PREFIX=/usr \
  -D CMAKE_CXX_FLAGS_RELEASE="$flags" -D CMAKE_EXE_LINKER_FLAGS=-Wl,-z,relro,-z,now \
  -D BANYAN_TESTS=OFF -D BANYAN_LINES=OFF -D BANYAN_WERROR=ON > "$work/configure.log"
cmake --build "$source/build/release" --target banyan > "$work/build.log" || { tail -30 "$work/build.log"; exit 1; }

echo "release: Debian package"
(cd "$source/build/release" && cpack -G DEB > "$work/cpack.log") || { tail -30 "$work/cpack.log"; exit 1; }
cp "$source"/build/release/banyan_*.deb "$out"

echo "release: self-contained tarball"
tree=banyan-$version-linux-$machine
DESTDIR=$work/installed cmake --install "$source/build/release" --component program --strip > "$work/install.log"
mv "$work/installed/usr" "$work/$tree"
tools/bundle_libraries.sh "$work/$tree" > "$work/libraries.txt"
pack "$tree" "$out/$tree.tar.gz"

if [ "${WHEEL:-ON}" = ON ]; then
  echo "release: wheel"
  (cd "$source" && CUDA=OFF CMAKE=-DBANYAN_LINES=OFF FLAGS="$flags" tools/wheel.sh) > "$work/wheel.log" 2>&1 || { tail -30 "$work/wheel.log"; exit 1; }
  cp "$source"/build/wheels/banyan_engine*.whl "$out"
fi

echo "release: SBOM and checksums"
tools/sbom.py "$version" "$source" "$work/libraries.txt" "$out" > "$out/banyan-$version.spdx.json"
(cd "$out" && sha256sum -- *.tar.gz *.deb *.json $(ls | grep '\.whl$') > SHA256SUMS)
[ -n "${KEEP:-}" ] || rm -rf "$work"
cat "$out/SHA256SUMS"
