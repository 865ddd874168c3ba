#!/usr/bin/env bash
# `make test-release`: installs each artefact of build/release-VERSION/ where nothing of this machine is, and asks it a
# question. The Debian package and the self-contained tarball: in a bare Debian 12 that debootstrap makes (root is needed;
# without it only this machine is tried). The tarball, by a user other than root and in a folder whose name has spaces:
# in a bare Debian 13 too, and in bare Ubuntus where their mirror has this architecture. The wheel: in a new environment
# of Python. What the tarball and the wheel need of a system is compared with what Ubuntu 22.04 has. Says what it did
# not try.
#   RELEASE=FOLDER   MIRROR=URL of a Debian mirror (default: this machine's)   SUITES=bookworm   NEWER_SUITES=trixie
#   UBUNTU=URL of an Ubuntu mirror (default: archive.ubuntu.com, or ports.ubuntu.com)   UBUNTU_SUITES="jammy noble"
#   PYTHON=python3.12   the Python that installs the wheel
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^#define BANYAN_VERSION "\(.*\)"/\1/p' include/banyan/version.h)
release=$(realpath "${RELEASE:-build/release-$version}")
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
fail() { echo "release test: $*" >&2; exit 1; }
# A question, in a folder of one's own. REQUIRES: the program's path or name.
cat > "$work/ask.sh" <<'ASK'
set -e
folder=$(mktemp -d)
cd "$folder"
echo 'Anna Walker steers the ferry Marigold.' > notes.txt
"$1" --version
"$1" ask notes.txt 'Who steers the ferry Marigold?' --quiet | grep '"answer":"Anna Walker"'
rm -r "$folder"
ASK

(cd "$release" && sha256sum --check --quiet SHA256SUMS) || fail "SHA256SUMS"
python3 - "$release/banyan-$version.spdx.json" <<'PYTHON' || fail "SBOM"
import json, sys
document = json.load(open(sys.argv[1]))
known = {"SPDXRef-DOCUMENT"} | {package["SPDXID"] for package in document["packages"]}
assert document["spdxVersion"] == "SPDX-2.3" and len(known) == len(document["packages"]) + 1, "identities"
assert {end for one in document["relationships"] for end in (one["spdxElementId"], one["relatedSpdxElement"])} <= known
PYTHON

# What an artefact needs of a system. Ubuntu 22.04 is the oldest of those that are promised: glibc 2.35, and the libraries
# of GCC 12. Debian 12, Ubuntu 24.04 and Fedora from 36 on have all of these versions.
needs() {  # PREFIX FILE…: the newest version of a symbol that one of the files takes from elsewhere
  local prefix=$1
  shift
  for file in "$@"; do objdump -T "$file" | grep -F '*UND*' || true; done | grep -oE "\b$prefix[0-9.]+" | sort -Vu | tail -1
}
no_newer() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | tail -1)" = "$2" ]; }
fits() {  # NAME FILE…: fails if a file needs what Ubuntu 22.04 has not
  local name=$1 limit found
  shift
  for limit in GLIBC_2.35 GLIBCXX_3.4.30 CXXABI_1.3.13 GCC_12.0.0; do
    found=$(needs "${limit%%_*}_" "$@")
    [ -n "$found" ] || fail "$name: no symbol of ${limit%%_*}: objdump shows something else than expected"
    echo "$name: needs $found"
    no_newer "$found" "$limit" || fail "$name: needs $found, and Ubuntu 22.04 has $limit"
  done
}
no_newer GLIBC_2.4 GLIBC_2.35 && ! no_newer GLIBC_2.36 GLIBC_2.35 || fail "versions are not compared as numbers"
tar -xzf "$release/banyan-$version-linux-$(uname -m).tar.gz" -C "$work"
tree=$work/banyan-$version-linux-$(uname -m)
fits tarball "$tree"/bin/* "$tree"/lib/banyan/*
for program in "$tree"/bin/*; do
  ! strings -a "$program" | grep -F "$PWD" || fail "$program names a folder of this machine"
done

# within ROOT COMMAND…: with /proc, which the loader finds $ORIGIN by, gone with the command.
within() {
  unshare --mount --pid --fork sh -c 'mount -t proc proc "$0/proc" && exec env -u TMPDIR chroot "$0" "$@"' "$@"
}
bare() {  # SUITE MIRROR OPTION…: a bare system in $work/SUITE, and the tarball in it as an ordinary user
  local suite=$1 from=$2 root=$work/$1 script=
  shift 2
  [ -e "/usr/share/debootstrap/scripts/$suite" ] || script=/usr/share/debootstrap/scripts/jammy  # one for all Ubuntus
  debootstrap --variant=minbase "$@" "$suite" "$root" "$from" $script > "$work/debootstrap.log" 2>&1 || { tail -3 "$work/debootstrap.log"; return 1; }
  cp "$work/ask.sh" "$root/tmp/"
  chroot "$root" useradd --create-home stranger
  mkdir "$root/home/stranger/My tools"
  cp -r "$tree" "$root/home/stranger/My tools/banyan 0.2"
  echo "$suite: self-contained tarball"
  within "$root" su stranger -c "sh /tmp/ask.sh '/home/stranger/My tools/banyan 0.2/bin/banyan'" || fail "tarball on $suite"
  within "$root" su stranger -c "'/home/stranger/My tools/banyan 0.2/bin/banyan' bench --help" > /dev/null || fail "banyan bench of the tarball on $suite"
}
in_debian() {  # SUITE: the tarball, then the package: a question, its manual, and nothing left when it is removed
  local suite=$1 root=$work/$1
  bare "$suite" "$mirror" || return 1
  echo "$suite: Debian package"
  cp "$release"/banyan_*.deb "$root/tmp/banyan.deb"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  within "$root" sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends man-db /tmp/banyan.deb' \
    > "$work/apt.log" 2>&1 || { tail -5 "$work/apt.log"; fail "package on $suite"; }
  within "$root" su stranger -c 'sh /tmp/ask.sh banyan' || fail "package on $suite"
  within "$root" su stranger -c 'banyan bench --help' > /dev/null || fail "banyan bench of the package on $suite"
  within "$root" su stranger -c 'man banyan-ask' | grep -q -e --questions || fail "man banyan-ask on $suite"
  within "$root" sh -c 'dpkg --purge banyan' > "$work/purge.log" 2>&1 || { cat "$work/purge.log"; fail "purging on $suite"; }
  [ -z "$(find "$root/usr" "$root/etc" "$root/var/lib" -name '*banyan*' -print -quit)" ] || fail "purging leaves files on $suite"
}
if [ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null; then
  mirror=${MIRROR:-$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true; } |
    sed -nE 's/^(deb|URIs:) .*?(https?:[^ ]+debian)\/?( .*)?$/\2/p; s/^URIs: (https?:[^ ]+)$/\1/p' | head -1)}
  for suite in ${SUITES:-bookworm}; do in_debian "$suite" || fail "no bare $suite from the mirror"; done
  for suite in ${NEWER_SUITES-trixie}; do bare "$suite" "$mirror" || fail "no bare $suite from the mirror"; done
  machine=$(dpkg --print-architecture)
  ubuntu=${UBUNTU:-$([ "$machine" = amd64 ] && echo http://archive.ubuntu.com/ubuntu || echo http://ports.ubuntu.com/ubuntu-ports)}
  for suite in ${UBUNTU_SUITES:-jammy noble}; do
    if curl --silent --fail --max-time 60 --output /dev/null "$ubuntu/dists/$suite/main/binary-$machine/Release"; then
      bare "$suite" "$ubuntu" --no-check-gpg || fail "no bare $suite from the mirror"  # Debian has no keys of Ubuntu
    else
      echo "not tried: $suite ($ubuntu has no $machine, or cannot be reached); what it has is compared above"
    fi
  done
  echo "not tried: Fedora (not made by debootstrap); what it has is newer than what is compared above"
else
  echo "not tried: bare systems (no root or no debootstrap); on this machine:"
  sh "$work/ask.sh" "$tree/bin/banyan" || fail "tarball on this machine"
fi
if command -v lintian >/dev/null; then
  lintian --allow-root --fail-on error,warning "$release"/banyan_*.deb && echo "lintian: nothing found"
fi
for wheel in "$release"/banyan_engine-*.whl; do
  [ -e "$wheel" ] || { echo "not tried: no wheel in $release"; break; }
  echo "wheel: $(basename "$wheel")"
  python3 -m zipfile -e "$wheel" "$work/wheel"
  fits wheel "$work"/wheel/banyan/*.so "$work"/wheel/banyan_engine.libs/*
  ! strings -a "$work"/wheel/banyan/*.so | grep -E -e "^/(tmp|home)/" -e "$PWD" || fail "the wheel names a folder of this machine"
  [ "$(ls "$work"/wheel/banyan_engine-*.dist-info/licenses/libraries | wc -l)" -gt 5 ] || fail "the wheel has no licences of its libraries"
  "${PYTHON:-python3}" -m venv "$work/a venv"
  "$work/a venv/bin/python" -m pip install -q "$wheel"
  (cd "$work" && sh "$work/ask.sh" "$work/a venv/bin/banyan") || fail "wheel"
done
