#!/usr/bin/env bash
# The end of `make demo`: the four recipes on a folder of letters, each command printed before it runs. In two minutes at
# most, with the shipped model; leaves nothing behind. banyan: build/release/banyan, or $BANYAN.
set -euo pipefail
cd "$(dirname "$0")/.."
banyan=$(realpath "${BANYAN:-build/release/banyan}")
export BANYAN_OFFER=no BANYAN_MODEL=${BANYAN_MODEL:-$PWD/models/banyan-reader-34m.gguf}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/letters"
cd "$folder"
PATH=$(dirname "$banyan"):$PATH

cat > letters/ferry.txt <<'TEXT'
The ferry Marigold leaves the pier at 7:45 every morning. Anna Walker steers the ferry Marigold.
TEXT
cat > letters/barge.md <<'TEXT'
Tom Reed steers the barge Otter. The barge Otter carries three crates of dried figs.
TEXT
cat > letters/kettle.txt <<'TEXT'
Kelvora Trail 200 kettle
Brand: Kelvora
Colour: moss green
Price: 49 EUR
TEXT

show() {  # title, then the command
  printf '\n%s\n$ %s\n' "$1" "$2"
  bash -ec "$2"
}

show '1. A question about a file' 'banyan ask letters/ferry.txt "Who steers the ferry Marigold?" --output-format text'
show '2. The same question of every file, as a table' \
  'banyan ask letters -q "Who steers the ferry Marigold?" -o answers.csv --ordered --quiet && cut -d, -f1-4 answers.csv'
show '3. Fields out of a page' \
  "banyan extract letters/kettle.txt --schema '{\"brand\":\"text\",\"colour\":\"text\",\"price\":\"text\"}' --output-format text --quiet"
show '4. A question over the folder, with its source' \
  'banyan rag index letters --quiet && banyan rag "When does the ferry Marigold leave the pier?"'
printf '\nNext: banyan ask YOUR-FILE   ·   a better reader: banyan model better   ·   a page in the browser: banyan serve\n'
