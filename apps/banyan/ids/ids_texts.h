// The lines of `ids` that go through an encoder: gathered, then computed together.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "banyan/encoder.h"
#include "banyan/engine.h"
#include "banyan/types.h"

namespace banyan::app {

class IdsTexts {
 public:
  // Of the options, batch_rows and one_by_one count.
  IdsTexts(std::shared_ptr<Encoder> encoder, const EngineOptions& options);

  // `row` comes back with the result. Throws Error when the model cannot take the text.
  void AddEmbed(size_t row, std::vector<TokenId> text);
  void AddRerank(size_t row, std::vector<TokenId> text);
  bool full() const { return waiting_tokens_ >= kManyTokens; }

  // Rows that were added since the last call, each with the fields of its output line as JSON.
  std::vector<std::pair<size_t, std::string>> Take();

 private:
  static constexpr size_t kManyTokens = 1 << 16;

  void Add(size_t row, std::vector<TokenId> text);
  std::string FieldsOf(const Embedding& embedding) const;

  std::shared_ptr<Encoder> encoder_;
  int batch_rows_;
  std::vector<size_t> rows_;
  std::vector<std::vector<TokenId>> texts_;
  size_t waiting_tokens_ = 0;
};

}  // namespace banyan::app
