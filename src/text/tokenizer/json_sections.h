// The sections of a Hugging Face tokenizer.json, each read into its stage. A type that is not
// supported is refused by name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "text/tokenizer/tokenizer_parts.h"

namespace banyan {

// A value inside a JSON file together with its place, so that every error names file and key.
class JsonNode {
 public:
  JsonNode(const Json& value, std::string place) : value_(&value), place_(std::move(place)) {}

  const Json& value() const { return *value_; }
  const std::string& place() const { return place_; }  // "FILE: model.vocab"

  // nullopt when the key is absent or null. REQUIRES nothing: throws when this is no object.
  std::optional<JsonNode> Find(const std::string& key) const;
  JsonNode Get(const std::string& key) const;  // throws kFormat when absent or null
  JsonNode At(size_t index) const;             // element of an array. REQUIRES: in range
  std::vector<JsonNode> Elements() const;      // throws kFormat when this is no array

  std::string String() const;
  bool Bool() const;
  std::int64_t Integer() const;
  double Number() const;

  std::string StringOr(const std::string& key, std::string fallback) const;
  bool BoolOr(const std::string& key, bool fallback) const;

  [[noreturn]] void Expected(std::string_view what) const;     // kFormat: expected …, found …
  [[noreturn]] void Unsupported(std::string_view name) const;  // kUnsupported, with the name

 private:
  const Json* value_;
  std::string place_;
};

// Sequences of stages may nest, to a depth of 16.
void ReadNormalizer(const JsonNode& node, Normalizer& out);
void ReadPreTokenizer(const JsonNode& node, PreTokenizer& out);
// Returns whether the text is one piece after this decoder.
bool ReadDecoder(const JsonNode& node, bool fused, Decoder& out);
// Adds the post-processor's tokens around parts.before and parts.after.
void ReadPostProcessor(const JsonNode& node, TokenizerParts& parts);

}  // namespace banyan
