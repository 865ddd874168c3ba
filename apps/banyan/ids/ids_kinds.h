// The kinds of lines of `ids`: prompts for the engine, texts for the tokenizer, texts for an
// encoder.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "banyan/constrain.h"
#include "banyan/encoder.h"
#include "banyan/engine.h"
#include "banyan/text.h"
#include "banyan/types.h"
#include "ids/ids_lines.h"

namespace banyan::app {

// A request for the engine, and the shape of its answers.
struct IdsPrompt {
  PromptSegment root;
  std::vector<size_t> answers = {1};  // [contexts]: questions of each
};

// Gives the answer to a question of a context a tag of its own.
using TagAnswer = std::function<std::uint64_t(size_t context, size_t question)>;

// Throw kInput.
IdsPrompt LogitsPrompt(const Json& line, const TagAnswer& tag);
IdsPrompt GreedyPrompt(const Json& line, const TagAnswer& tag);
// One prefix, contexts below it, questions below each.
IdsPrompt StackedPrompt(const Json& line, const TagAnswer& tag);
// system → documents → question for the experts, system → question for the prior, which has the
// answer.
IdsPrompt ExpertsPrompt(const Json& line, const TagAnswer& tag);
// A template's pieces, with a value after each.
IdsPrompt SkeletonPrompt(const Json& line, const TagAnswer& tag);

// The kinds that need a tokenizer alone. Each returns the output line.
class IdsTokenizer {
 public:
  explicit IdsTokenizer(std::shared_ptr<const Text> text) : text_(std::move(text)) {}

  std::string Tokenize(const Json& line, const std::string& id) const;
  std::string Detokenize(const Json& line, const std::string& id) const;
  std::string Chat(const Json& line, const std::string& id) const;
  std::string Mask(const Json& line, const std::string& id);

 private:
  const Text& NeedText() const;

  std::shared_ptr<const Text> text_;              // null: there is no tokenizer
  std::shared_ptr<const TokenTrie> trie_;         // of text_, once a mask was asked for
  std::shared_ptr<const Constraint> constraint_;  // of the last line that asked for one
  std::string constraint_source_;
  bool constraint_is_schema_ = false;
};

// The kinds that need an encoder: collected, then computed together.
class IdsEncoder {
 public:
  // Of the options, batch_rows and one_by_one count.
  IdsEncoder(std::shared_ptr<Encoder> encoder, const EngineOptions& options);

  // `row` comes back with the result. Throws Error when the model cannot take the text.
  void AddEmbed(size_t row, std::vector<TokenId> text);
  void AddRerank(size_t row, std::vector<TokenId> text);
  bool full() const { return waiting_tokens_ >= kManyTokens; }

  // Rows that were added since the last call, each with the fields of its output line as JSON.
  std::vector<std::pair<size_t, std::string>> Take();

 private:
  static constexpr size_t kManyTokens = 1 << 16;

  void Add(size_t row, std::vector<TokenId> text);

  std::shared_ptr<Encoder> encoder_;
  int batch_rows_;
  std::vector<size_t> rows_;
  std::vector<std::vector<TokenId>> texts_;
  size_t waiting_tokens_ = 0;
};

}  // namespace banyan::app
