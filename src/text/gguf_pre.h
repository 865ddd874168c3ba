// GGUF names a pre-tokenizer (tokenizer.ggml.pre) without saying what it does. This table does.
#pragma once

#include <string_view>
#include <vector>

namespace banyan {

struct GgufPreTokenizer {
  std::vector<const char*> patterns;  // applied one after another; matches and gaps are all pieces
  bool ignore_merges = false;         // a piece that is itself a token is not taken apart
  bool add_bos = false;               // unless tokenizer.ggml.add_bos_token says otherwise
  bool nfc = false;                   // the original tokenizer normalises to NFC
};

// Null for a name that is not in the table.
const GgufPreTokenizer* FindGgufPreTokenizer(std::string_view name);

}  // namespace banyan
