// Documents → passages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "banyan/retrieval.h"

namespace banyan {

// A document that is not divided yet.
struct WholeDocument {
  std::string id, title, text;
};

// The document in passages of at most so many words, divided after paragraphs where that leaves
// half full ones, else after sentences, else after words. A document that fits is one passage with
// its own id; others are called id#1, id#2 …. Space around passages belongs to none.
void AppendPassages(const WholeDocument& document, int most_words, std::vector<Passage>& passages);

}  // namespace banyan
