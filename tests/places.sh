#!/usr/bin/env bash
# `make test` of a fresh clone of the committed tree in three awkward places, so that no test depends on where the clone
# lies, who runs it, or what the machine offers besides the packages:
#   private  root's own folder (mode 700) with spaces and a long path, umask 077, TMPDIR inside it, LC_ALL=C
#   user     the user nobody (root only) with a home that cannot be written and a locale that is not UTF-8
#   alone    no network and no /dev/shm (root only, by namespaces), another TMPDIR
# usage: tests/places.sh [private|user|alone …]   All three by default. A compiler cache (ccache) is used where there is one:
# files that are compiled together name their parts by absolute paths, so `user` and `alone` see their clone at this
# checkout's path, where the cache knows them.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
tools/setup.sh
work=$(mktemp -d "${TMPDIR:-/tmp}/banyan-places.XXXXXX")
trap 'chmod -R u+rwX "$work" && rm -rf "$work"' EXIT
if command -v ccache >/dev/null; then
  # What is compiled does not depend on the locale.
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_DIR="${CCACHE_DIR:-$HOME/.cache/ccache}" CCACHE_SLOPPINESS=locale
fi

clone() {  # clone FOLDER: the committed tree, with shared/ beside it where there is one
  mkdir -p "$(dirname "$1")"
  git clone -q --no-hardlinks "$root" "$1"
  [ ! -e "$root/../shared" ] || ln -s "$(realpath "$root/../shared")" "$(dirname "$1")/shared"
}

private() {
  local long="$work/private/a folder whose name has spaces"
  for _ in 1 2 3 4; do long="$long/and a path that is longer than most people's"; done
  clone "$long/banyan"
  mkdir "$long/temporary files"
  chmod 700 "$work/private"
  (umask 077; cd "$long/banyan" && TMPDIR="$long/temporary files" LC_ALL=C BANYAN_TEST_TRIES=1 make test)
}

# At this checkout's path, in a mount namespace of its own; where `nobody` may not go there, at the clone's own path.
user() {
  [ "$(id -u)" -eq 0 ] || { echo "places: user: skipped, only root can become another user"; return; }
  chmod 755 "$work"
  clone "$work/user/banyan"
  mkdir "$work/user/home" "$work/user/temporary"
  chown -R nobody "$work/user"
  chmod 555 "$work/user/home"
  local become="setpriv --reuid nobody --regid nogroup --clear-groups" cache=CCACHE_DISABLE=1
  # A compiler cache that others may read is read, never written.
  $become test -x "${CCACHE_DIR:-/nowhere}" && cache=CCACHE_READONLY=1
  TREE="$work/user/banyan" AT="$root" unshare --mount bash -euc "
    $become test -x \"\$AT\" && mount --bind \"\$TREE\" \"\$AT\" && TREE=\$AT
    cd \"\$TREE\" && $become env HOME='$work/user/home' TMPDIR='$work/user/temporary' LC_ALL=de_DE.ISO-8859-1 \
      $cache CCACHE_TEMPDIR='$work/user' BANYAN_TEST_TRIES=1 make test"
}

alone() {
  [ "$(id -u)" -eq 0 ] || { echo "places: alone: skipped, only root can leave the network"; return; }
  clone "$work/alone/banyan"
  mkdir "$work/alone/temporary"
  # A second loopback of its own, and /dev/shm hidden by a file that is no folder.
  TREE="$work/alone/banyan" AT="$root" TMPDIR="$work/alone/temporary" BANYAN_TEST_TRIES=1 unshare --net --mount bash -euc '
    ip link set lo up 2>/dev/null || python3 -B -c "
import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack(\"16sh14x\", b\"lo\", 1))"
    umount -l /dev/shm 2>/dev/null || mount -t tmpfs -o ro,size=4k,mode=000 none /dev/shm
    mount --bind "$TREE" "$AT"
    cd "$AT" && make test'
}

for place in "${@:-private user alone}"; do
  for name in $place; do
    echo "places: $name"
    "$name"
    echo "places: $name: make test passed"
  done
done
