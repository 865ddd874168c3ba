#!/usr/bin/env bash
# bundle_libraries.sh TREE: puts the shared libraries that the programs of TREE/bin need into TREE/lib/banyan, with their
# licences, and lets the programs look there. Prints "library package version" of each.
# REQUIRES: patchelf, and what library_licences.sh requires.
set -euo pipefail
tree=$1
libraries=$tree/lib/banyan
mkdir -p "$libraries"
# libcurl is opened by the first download. It must find the libssl that fits the libcrypto of this bundle.
OPENED=libcurl4 "$(dirname "$0")/library_licences.sh" "$tree/share/doc/banyan/licences" "$tree"/bin/* | while read -r name path package version; do
  cp "$path" "$libraries/$name"
  chmod 644 "$libraries/$name"
  echo "$name $package $version"
done
# An RPATH, unlike a RUNPATH, also holds for the libraries that libraries need.
for program in "$tree"/bin/*; do patchelf --force-rpath --set-rpath '$ORIGIN/../lib/banyan' "$program"; done
