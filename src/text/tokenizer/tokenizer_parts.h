// The parts of a tokenizer, and the loaders that fill them (tokenizer_json.cc, tokenizer_gguf.cc).
// Tokenizer runs them; no other class needs them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/token_model.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/word_encoder.h"

namespace banyan {

class GgufMetadata;

// How a token's spelling encodes bytes, for TokenBytes.
enum class TokenSpelling { kByteLevel, kMetaspace, kWordPiece, kPlain };

struct TokenizerParts {
  std::string source;  // file name, for messages
  std::string kind;
  std::string pre_name;

  std::unique_ptr<const TokenModel> model;
  bool cut_at_metaspace = false;  // the model allows it: see BpeModel::CanCutAtMetaspace
  Vocabulary added_vocabulary;    // every added token, also those that the model knows
  TokenSet special;               // what IsSpecial says
  TokenSet control;               // what plain text never produces: special tokens and markup
  TokenSet unused;                // ids that a file reserves
  AddedTokenMatcher raw_matcher;
  AddedTokenMatcher normalized_matcher;

  // Owners of this tokenizer's entries in the threads' word caches: for any text, for plain text.
  std::uint64_t cache_owner = WordCache::NewOwner();
  std::uint64_t plain_cache_owner = WordCache::NewOwner();

  Normalizer normalizer;
  PreTokenizer pretokenizer;
  std::vector<TokenId> before, after;  // what add_special puts around the text
  Decoder decoder;
  TokenSpelling spelling = TokenSpelling::kPlain;
  std::string continuing_prefix;  // of WordPiece: "##"

  SpecialTokens specials;
  std::string chat_template;

  // Registers the added tokens in the fields above. Call it after normalizer is complete.
  void SetAddedTokens(const std::vector<AddedToken>& tokens);
  // Completes specials.end_ids with the control tokens that are known to end a turn; sorts them.
  void FindEndIds();
  std::optional<TokenId> Find(std::string_view token) const;
  std::string_view Text(TokenId id) const;
  size_t vocab_size() const;
};

// `path` is a tokenizer.json or the directory that holds one; tokenizer_config.json and
// chat_template.jinja beside it are read when they exist.
std::unique_ptr<TokenizerParts> ReadTokenizerJson(const std::filesystem::path& path);
// The same from memory. `what` names the source in messages; `config_json` may be empty.
std::unique_ptr<TokenizerParts> ReadTokenizerJsonText(std::string_view tokenizer_json,
                                                      std::string_view config_json,
                                                      const std::string& what);
// From GGUF metadata (tokenizer.ggml.*).
std::unique_ptr<TokenizerParts> ReadTokenizerGguf(const GgufMetadata& metadata);

}  // namespace banyan
