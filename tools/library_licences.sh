#!/usr/bin/env bash
# library_licences.sh FOLDER FILE…: the shared libraries that the programs and modules FILE… need and that a system may
# not have. Copies the copyright file of each one's Debian package into FOLDER; prints "library path package version".
# The system keeps what every Linux has and what must fit to its loader: the C library, and the C++ and compiler
# libraries, which are backward compatible; NVIDIA's come with its driver and toolkit. REQUIRES: dpkg (each library is of a Debian package).
#   OPENED="libcurl4 …"   packages of libraries that the programs open when they run: these count, too
set -euo pipefail
folder=$1
shift
mkdir -p "$folder"
of_system='^(libc|libm|libresolv|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux.*|libcuda.*|libcublas.*)\.so'
opened=()
for package in ${OPENED:-}; do
  while read -r path; do opened+=("$path"); done < <(dpkg-query --listfiles "$package" | grep -E '/lib[^/]+\.so\.[0-9]+$')
done
{
  ldd "$@" "${opened[@]}"
  for path in "${opened[@]}"; do echo "${path##*/} => $path"; done
} | awk '/=> \//{print $1, $3}' | sort -u | while read -r name path; do
  [[ $name =~ $of_system ]] && continue
  real=$(readlink -f "$path")
  # Debian 12 has /lib as a link to /usr/lib, and packages know either name.
  package=$(dpkg-query --search "$real" "${real#/usr}" 2>/dev/null | head -1 | cut -d: -f1 || true)
  [ -n "$package" ] || { echo "library_licences: no package has $real" >&2; exit 1; }
  cp -L "/usr/share/doc/$package/copyright" "$folder/$package"
  echo "$name $real $package $(dpkg-query --show --showformat '${Version}' "$package")"
done
