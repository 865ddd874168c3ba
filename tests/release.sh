#!/usr/bin/env bash
# `make test-release`: installs each artefact of build/release-VERSION/ where nothing of this machine is, and asks it a
# question. The Debian package and the self-contained tarball: in bare Debian 12 systems that debootstrap makes (root is
# needed; without it only this machine is tried). The tarball: in bare Ubuntus too, where their mirror has this
# architecture. The wheel: in a new environment of Python. Says what it did not try.
#   RELEASE=FOLDER   MIRROR=URL of a Debian mirror (default: this machine's)   SUITES="bookworm trixie"
#   UBUNTU=URL of an Ubuntu mirror (default: archive.ubuntu.com, or ports.ubuntu.com)   UBUNTU_SUITES="jammy noble"
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^#define BANYAN_VERSION "\(.*\)"/\1/p' include/banyan/version.h)
release=$(realpath "${RELEASE:-build/release-$version}")
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
fail() { echo "release test: $*" >&2; exit 1; }
cat > "$work/ask.sh" <<'ASK'
set -e
echo 'Anna Walker steers the ferry Marigold.' > /tmp/notes.txt
"$@" --version
"$@" ask /tmp/notes.txt 'Who steers the ferry Marigold?' --quiet | grep '"answer":"Anna Walker"'
ASK

(cd "$release" && sha256sum --check --quiet SHA256SUMS) || fail "SHA256SUMS"
python3 - "$release/banyan-$version.spdx.json" <<'PYTHON' || fail "SBOM"
import json, sys
document = json.load(open(sys.argv[1]))
known = {"SPDXRef-DOCUMENT"} | {package["SPDXID"] for package in document["packages"]}
assert document["spdxVersion"] == "SPDX-2.3" and len(known) == len(document["packages"]) + 1, "identities"
assert {end for one in document["relationships"] for end in (one["spdxElementId"], one["relatedSpdxElement"])} <= known
PYTHON

# What the tarball asks of a system. Ubuntu 22.04 has glibc 2.35 and GLIBCXX_3.4.30, the oldest of those that are promised.
tar -xzf "$release/banyan-$version-linux-$(uname -m).tar.gz" -C "$work"
tree=$work/banyan-$version-linux-$(uname -m)
needs() {  # PREFIX: the newest version of a symbol that a file of the tarball takes from elsewhere
  for file in "$tree"/bin/banyan "$tree"/lib/banyan/*; do objdump -T "$file" | grep 'UND' || true; done |
    grep -oE "\(?$1[0-9.]+" | tr -d '(' | sort -Vu | tail -1
}
newest() { printf '%s\n%s\n' "$1" "$2" | sort -V | tail -1; }
echo "tarball: needs $(needs GLIBC_) and $(needs GLIBCXX_)"
[ "$(newest "$(needs GLIBC_)" GLIBC_2.35)" = GLIBC_2.35 ] || fail "Ubuntu 22.04 has glibc 2.35"
[ "$(newest "$(needs GLIBCXX_)" GLIBCXX_3.4.30)" = GLIBCXX_3.4.30 ] || fail "Ubuntu 22.04 has GLIBCXX_3.4.30"
strings -a "$tree/bin/banyan" | grep -F "$PWD" && fail "the program names a folder of this machine"

# within ROOT COMMAND…: with /proc, which the loader finds $ORIGIN by, gone with the command.
within() {
  unshare --mount --pid --fork sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$@"
}
bare() {  # SUITE MIRROR OPTION…: a bare system in $work/SUITE, and the tarball in it as an ordinary user
  local suite=$1 from=$2 root=$work/$1 script=
  shift 2
  [ -e "/usr/share/debootstrap/scripts/$suite" ] || script=/usr/share/debootstrap/scripts/jammy  # one for all Ubuntus
  debootstrap --variant=minbase "$@" "$suite" "$root" "$from" $script > "$work/debootstrap.log" 2>&1 || { tail -3 "$work/debootstrap.log"; return 1; }
  cp "$work/ask.sh" "$root/tmp/"
  cp -r "$tree" "$root/opt/"
  chroot "$root" useradd --create-home stranger
  echo "$suite: self-contained tarball"
  within "$root" su stranger -c "sh /tmp/ask.sh /opt/$(basename "$tree")/bin/banyan" || fail "tarball on $suite"
  rm -f "$root/tmp/notes.txt"
}
in_debian() {  # SUITE: the tarball, then the package
  local suite=$1 root=$work/$1
  bare "$suite" "$mirror" || return 1
  echo "$suite: Debian package"
  cp "$release"/banyan_*.deb "$root/tmp/banyan.deb"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  within "$root" sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends /tmp/banyan.deb' \
    > "$work/apt.log" 2>&1 || { tail -5 "$work/apt.log"; fail "package on $suite"; }
  within "$root" sh /tmp/ask.sh banyan || fail "package on $suite"
}
if [ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null; then
  mirror=${MIRROR:-$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true; } |
    sed -nE 's/^(deb|URIs:) .*?(https?:[^ ]+debian)\/?( .*)?$/\2/p; s/^URIs: (https?:[^ ]+)$/\1/p' | head -1)}
  for suite in ${SUITES:-bookworm}; do in_debian "$suite" || fail "no bare $suite from the mirror"; done
  machine=$(dpkg --print-architecture)
  ubuntu=${UBUNTU:-$([ "$machine" = amd64 ] && echo http://archive.ubuntu.com/ubuntu || echo http://ports.ubuntu.com/ubuntu-ports)}
  for suite in ${UBUNTU_SUITES:-jammy noble}; do
    if curl --silent --fail --max-time 60 --output /dev/null "$ubuntu/dists/$suite/main/binary-$machine/Release"; then
      bare "$suite" "$ubuntu" --no-check-gpg || fail "no bare $suite from the mirror"  # Debian has no keys of Ubuntu
    else
      echo "not tried: $suite ($ubuntu has no $machine, or cannot be reached); its glibc is compared above"
    fi
  done
  echo "not tried: Fedora (no mirror for debootstrap); its glibc is newer than the one that is compared above"
else
  echo "not tried: bare systems (no root or no debootstrap); on this machine:"
  sh "$work/ask.sh" "$tree/bin/banyan" || fail "tarball on this machine"
fi
if command -v lintian >/dev/null; then
  lintian --allow-root --fail-on error,warning "$release"/banyan_*.deb && echo "lintian: nothing found"
fi
for wheel in "$release"/banyan-*.whl; do
  [ -e "$wheel" ] || { echo "not tried: no wheel in $release"; break; }
  "${PYTHON:-python3}" -m venv "$work/venv"
  "$work/venv/bin/pip" install -q "$wheel"
  echo "wheel: $(basename "$wheel")"
  (cd "$work" && sh "$work/ask.sh" "$work/venv/bin/banyan") || fail "wheel"
done
