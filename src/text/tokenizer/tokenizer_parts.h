// What a loaded tokenizer is made of. Filled by the loaders (tokenizer_json.cc, tokenizer_gguf.cc),
// run by tokenizer.cc; no other file needs it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/token_model.h"
#include "text/tokenizer/word_encoder.h"

namespace banyan {

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
  TokenSet control;               // what plain text never makes: special, and markup
  TokenSet unused;                // places in the vocabulary that a file fills with names
  AddedTokenMatcher raw_matcher;
  AddedTokenMatcher normalized_matcher;

  // This tokenizer's words in a thread's cache: of any text, and of plain text.
  std::uint64_t cache_owner = WordCache::NewOwner();
  std::uint64_t plain_cache_owner = WordCache::NewOwner();

  Normalizer normalizer;
  PreTokenizer pretokenizer;
  std::vector<TokenId> before, after;  // what add_special puts around the text
  Decoder decoder;
  TokenSpelling spelling = TokenSpelling::kPlain;
  std::string continuing_prefix;  // WordPiece: "##", GGUF: ""

  std::optional<TokenId> bos, eos, pad, unk;
  std::vector<TokenId> end_ids;
  std::string chat_template;

  // Registers the added tokens in the fields above. Call it after normalizer is complete.
  void SetAddedTokens(const std::vector<AddedToken>& tokens);
  // Completes end_ids with the control tokens that are known to end a turn; sorts them.
  void FindEndIds();
  std::optional<TokenId> Find(std::string_view token) const;
  std::string_view Text(TokenId id) const;
  size_t vocab_size() const;
};

}  // namespace banyan
