#!/usr/bin/env bash
# Installs the Debian packages that Banyan is built and tested with, and those named as arguments, if
# any is missing.
set -euo pipefail
packages=(
  g++ cmake ninja-build pkg-config git              # build
  nlohmann-json3-dev libcli11-dev libfmt-dev        # JSON, command line, text
  libpcre2-dev libutf8proc-dev                      # tokenizers
  zlib1g-dev libzstd-dev                            # compressed input and output
  libssl-dev                                        # SHA-256
  libboost-dev                                      # the HTTP server
  libxml2-dev poppler-utils libedit-dev             # HTML and PDF documents, the prompt of ask
  libsqlite3-dev                                    # the index of KV on disk
  libcurl4-openssl-dev ca-certificates              # models of the Hugging Face hub by name
  libfaiss-dev                                      # approximate search of vectors
  libgtest-dev libgmock-dev python3 python3-venv python3-numpy python3-jsonschema clang-format  # tests
  "$@"
)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if ! command -v apt-get >/dev/null; then
  echo "setup: not a Debian system; please install the equivalents of: ${missing[*]}" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: need root or sudo to install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
