#!/usr/bin/env bash
# bundle_libraries.sh TREE: puts the shared libraries that the programs of TREE/bin need into TREE/lib/banyan, with their
# licences, and lets the programs look there. The system keeps what every Linux has and what must fit to its loader: the C
# library, and the C++ and compiler libraries, which are backward compatible. Prints "library package version" of each.
# REQUIRES: patchelf, dpkg (each library is of a Debian package).
set -euo pipefail
tree=$1
programs=("$tree"/bin/*)
libraries=$tree/lib/banyan
licences=$tree/share/doc/banyan/licences
mkdir -p "$libraries" "$licences"
of_system='^(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux.*)\.so'
ldd "${programs[@]}" | awk '/=> \//{print $1, $3}' | sort -u | while read -r name path; do
  [[ $name =~ $of_system ]] && continue
  real=$(readlink -f "$path")
  cp "$real" "$libraries/$name"
  chmod 644 "$libraries/$name"
  # Debian 12 has /lib as a link to /usr/lib, and packages know either name.
  package=$(dpkg-query --search "$real" "${real#/usr}" 2>/dev/null | head -1 | cut -d: -f1 || true)
  [ -n "$package" ] || { echo "bundle_libraries: no package has $real" >&2; exit 1; }
  cp -L "/usr/share/doc/$package/copyright" "$licences/$package"
  echo "$name $package $(dpkg-query --show --showformat '${Version}' "$package")"
done
# An RPATH, unlike a RUNPATH, also holds for the libraries that libraries need.
for program in "${programs[@]}"; do patchelf --force-rpath --set-rpath '$ORIGIN/../lib/banyan' "$program"; done
