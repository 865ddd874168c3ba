// Constrained decoding: a regular expression or a JSON Schema is compiled to an automaton over
// bytes, which determines the allowed next tokens at every step. A token is allowed iff the text so
// far plus its bytes can still be completed to a match. An answer therefore never reaches a dead
// end, not even inside a character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/types.h"

namespace banyan {

class Text;
class TokenTrie;

// The tokens of a vocabulary by their bytes: built at the first call (some hundred milliseconds for
// 150 000 tokens) and kept with the text.
std::shared_ptr<const TokenTrie> MakeTokenTrie(const Text& text);

struct ConstraintOptions {
  // Allowed exactly where the text may end. None: masks hold tokens of text alone.
  std::vector<TokenId> end_tokens;
  size_t mask_bytes = size_t{64} << 20;  // of masks that are kept
  // Where only one text can follow, allow only the token that the tokenizer itself would produce:
  // of all splits of the same bytes, the one that a model knows.
  bool canonical = true;
  // The answer ends as soon as its text may end, whatever else could follow.
  bool end_when_complete = false;
  // FromCopies: several spans may follow one another, with "; " between them.
  bool joined = false;
};

// A JSON value in a longer text: the text before it, and the schema that it fits.
struct JsonSlot {
  std::string before;
  std::string schema;
};

// Compiled; safe to use from many threads at once.
class Constraint {
 public:
  // The whole text matches, from its first character to its last. The syntax: docs/constraints.md.
  // Throws kInput or kUnsupported with the position in the pattern, kLimit for one that is too
  // large, kUnsupported when it may need a byte that no token spells.
  static std::shared_ptr<const Constraint> FromRegex(std::string_view pattern,
                                                     std::shared_ptr<const TokenTrie> trie,
                                                     ConstraintOptions options = {});
  // The text is JSON without white space that fits the schema, with the properties in its order.
  // Throws kInput or kUnsupported with the JSON pointer of what is wrong or not supported.
  static std::shared_ptr<const Constraint> FromJsonSchema(std::string_view schema,
                                                          std::shared_ptr<const TokenTrie> trie,
                                                          ConstraintOptions options = {});
  // Throw as the two above do, for what no vocabulary is needed to refuse.
  static void CheckRegex(std::string_view pattern);
  static void CheckJsonSchema(std::string_view schema);
  // A template: every slot's text and its value, at last one of `after`. Between the items of an
  // array there is a comma and a space, as models write it. Throws as FromJsonSchema does.
  static std::shared_ptr<const Constraint> FromJsonTemplate(std::span<const JsonSlot> slots,
                                                            std::span<const std::string> after,
                                                            std::shared_ptr<const TokenTrie> trie,
                                                            ConstraintOptions options = {});
  // The same, and {"x-copied": true} in a slot's schema is a string that is a span of `text`, as
  // FromCopies has them. Throws kInput when the text has no span where one is needed, kLimit for a
  // text that is too long.
  static std::shared_ptr<const Constraint> FromCopyTemplate(std::span<const JsonSlot> slots,
                                                            std::span<const std::string> after,
                                                            std::string_view text,
                                                            std::shared_ptr<const TokenTrie> trie,
                                                            ConstraintOptions options = {});
  // The text is copied: a span of `text` from where a word, a number or a sign begins to where one
  // ends, with runs of white space as one space; or one of `others` as it is. Throws kLimit for a
  // text that is too long.
  static std::shared_ptr<const Constraint> FromCopies(std::string_view text,
                                                      std::span<const std::string> others,
                                                      std::shared_ptr<const TokenTrie> trie,
                                                      ConstraintOptions options = {});
  // The same of several texts: a span is of one of them.
  static std::shared_ptr<const Constraint> FromCopies(std::span<const std::string_view> texts,
                                                      std::span<const std::string> others,
                                                      std::shared_ptr<const TokenTrie> trie,
                                                      ConstraintOptions options = {});
  ~Constraint();

  bool Matches(std::string_view text) const;
  // The shortest bytes that complete the text to a match, of these the first in order; nothing when
  // none do.
  std::optional<std::string> Completion(std::string_view text) const;
  // The bytes that tokens stand for, whole characters or not; special ones have none.
  std::string BytesOf(std::span<const TokenId> tokens) const;
  size_t states() const;          // of the automaton
  size_t masks_computed() const;  // since it was compiled

  struct Parts;
  const Parts& parts() const { return *parts_; }
  explicit Constraint(std::unique_ptr<Parts> parts);

 private:
  std::unique_ptr<Parts> parts_;
};

// Where one answer stands. A small value: copy it to ask from another thread.
class ConstraintState {
 public:
  explicit ConstraintState(std::shared_ptr<const Constraint> constraint);

  // Advances by a token of the text, in any split. Returns false, and changes nothing, if the text
  // could not be completed after it. End tokens are not part of the text: stop at one.
  [[nodiscard]] bool Advance(TokenId token);
  // Bit t set: token t may come next. Computed at the first call in a state (by whichever stream or
  // thread), then kept; the words stay valid as long as the pointer is held.
  std::shared_ptr<const std::vector<std::uint32_t>> AllowedMask() const;
  // Whether the text is complete here.
  bool MayEnd() const;
  // Whether nothing but the end can come, or is to come.
  bool MustEnd() const;

 private:
  std::shared_ptr<const Constraint> constraint_;
  std::uint32_t state_;
};

// The tokens of a mask, rising; their number and the SHA-256 of their ids (decimal, joined by
// commas) are what masks are compared by.
std::vector<TokenId> MaskTokens(std::span<const std::uint32_t> mask);
std::string TokensDigest(std::span<const TokenId> tokens);

}  // namespace banyan
