// Text ↔ tokens, as a model's own files define it. The stages of the pipeline have their own files:
// added_tokens → normalizer → pretokenizer → token_model, and decoder on the way back. Chat
// templates are only carried here, as source text.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/types.h"

namespace banyan {

class GgufFile;
struct TokenizerParts;

struct EncodeOptions {
  // Adds BOS, EOS, CLS, SEP … as the file's post-processor (GGUF: add_bos, add_eos) says.
  bool add_special = false;
  // true: control tokens written in the text become their ids. false: text stays text; no spelling
  // produces a control token. Use false for everything that a user or a document wrote.
  bool parse_special = true;
};

struct SpecialTokens {
  std::optional<TokenId> bos, eos, unk;
  // Every id that ends a turn or a text, sorted: what the files say (eos, eot, eom) and the control
  // tokens that are known for it (<|im_end|>, <|endoftext|>, …).
  std::vector<TokenId> end_ids;
};

// Immutable and safe to use from many threads at once.
class Tokenizer {
 public:
  // `path` is a tokenizer.json or the directory that holds one; tokenizer_config.json and
  // chat_template.jinja beside it are read when they exist.
  static std::shared_ptr<const Tokenizer> FromHuggingFace(const std::filesystem::path& path);
  // The same from memory. `what` names the source in messages; `config_json` may be empty.
  static std::shared_ptr<const Tokenizer> FromHuggingFaceText(std::string_view tokenizer_json,
                                                              std::string_view config_json,
                                                              const std::string& what);
  static std::shared_ptr<const Tokenizer> FromGguf(const GgufFile& file);
  // A GGUF file, a tokenizer.json or a directory, told apart by content.
  static std::shared_ptr<const Tokenizer> Load(const std::filesystem::path& path);

  explicit Tokenizer(std::unique_ptr<const TokenizerParts> parts);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Any bytes are accepted: each ill-formed UTF-8 sequence counts as U+FFFD.
  [[nodiscard]] std::vector<TokenId> Encode(std::string_view text,
                                            EncodeOptions options = {}) const;
  // One text in pieces, some of which a user wrote. Control tokens are recognised only where they
  // lie entirely in pieces that are not `plain`. Text between control tokens is tokenised as one
  // run, across pieces.
  struct Piece {
    std::string_view text;
    bool plain = false;
  };
  [[nodiscard]] std::vector<TokenId> EncodePieces(std::span<const Piece> pieces,
                                                  bool add_special = false) const;
  // Encodes the rest of a text that was cut. If AllowsCutsBeforeWords() and the cut lies at such a
  // place inside a plain piece, the tokens of both parts are those of the whole text.
  [[nodiscard]] std::vector<TokenId> EncodeRest(std::span<const Piece> pieces) const;
  // Whether a text may be cut between a letter and a space with a letter after it.
  bool AllowsCutsBeforeWords() const;
  // The result is always well-formed UTF-8. Throws kInput for an id outside the vocabulary.
  [[nodiscard]] std::string Decode(std::span<const TokenId> ids, bool skip_special = false) const;

  size_t vocab_size() const;  // highest id + 1
  // Control tokens: skip_special omits them and parse_special = false never produces them. (Plain
  // text does not produce other added tokens that are spelled like markup, <think>, either.)
  bool IsSpecial(TokenId id) const;
  // Whether the token was added to the trained vocabulary, special or not, or is marked as unused.
  bool IsAdded(TokenId id) const;
  std::optional<TokenId> Find(std::string_view token) const;  // by the token's spelling in the file
  // The spelling in the file ("Ġthe", "▁the", "<0x0A>"); empty for an id that has no token.
  std::string_view TokenText(TokenId id) const;
  // The bytes that the token stands for inside a text (" the", "\n"); a control token's spelling.
  std::string TokenBytes(TokenId id) const;

  const SpecialTokens& special_tokens() const;
  std::string bos_text() const;  // what templates call bos_token; empty when there is none
  std::string eos_text() const;

  const std::string& model_kind() const;     // "BPE", "SentencePiece BPE", "Unigram", "WordPiece"
  const std::string& pre_name() const;       // GGUF tokenizer.ggml.pre; "tokenizer.json" otherwise
  const std::string& chat_template() const;  // Jinja source; empty when the files have none

 private:
  friend class StreamDecoder;
  std::unique_ptr<const TokenizerParts> parts_;
};

// Incremental Decode: the concatenation of every Push and of Finish equals Decode of all ids, and
// no returned piece ends inside a character. One object for one stream of ids; not thread-safe.
class StreamDecoder {
 public:
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special = false);
  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;

  // The text that this token completes, possibly empty. An id without a token adds nothing: a
  // model's output may have more rows than its vocabulary has tokens.
  std::string Push(TokenId id);
  // What is still held back, with U+FFFD for an unfinished character. Ends the stream: the next
  // Push begins a new one.
  std::string Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace banyan
