// The sections of a Hugging Face tokenizer.json, each read into its stage. A type that we do not
// have is refused by name.
#pragma once

#include <memory>

#include "text/tokenizer/json_node.h"
#include "text/tokenizer/tokenizer_parts.h"

namespace banyan {

void ReadNormalizer(const JsonNode& node, Normalizer& out);
void ReadPreTokenizer(const JsonNode& node, PreTokenizer& out);
// Returns whether the text is one piece after this decoder.
bool ReadDecoder(const JsonNode& node, bool fused, Decoder& out);
// Puts what the post-processor adds around what is there already.
void ReadPostProcessor(const JsonNode& node, TokenizerParts& parts);
// Fills model, kind, unk and, for WordPiece, continuing_prefix.
void ReadModel(const JsonNode& node, TokenizerParts& parts);

// Sequences may nest; every reader above stops at this depth.
inline constexpr int kMaxSequenceDepth = 16;

}  // namespace banyan
