// Added tokens are registered, end tokens completed.
#include "text/tokenizer/tokenizer_parts.h"

#include <algorithm>
#include <utility>

namespace banyan {

void TokenizerParts::SetAddedTokens(const std::vector<AddedToken>& tokens) {
  std::vector<AddedToken> raw, normalized;
  std::vector<std::string> raw_contents, normalized_contents;
  // Of two added tokens with the same content, the special one wins.
  for (const bool special_pass : {true, false}) {
    for (const AddedToken& token : tokens) {
      if (token.special != special_pass) continue;
      if (token.normalized) {
        std::string content = token.content;
        normalizer.Apply(content);
        normalized.push_back(token);
        normalized_contents.push_back(std::move(content));
      } else {
        raw.push_back(token);
        raw_contents.push_back(token.content);
      }
    }
  }
  for (const AddedToken& token : tokens) {
    added_vocabulary.Add(token.id, token.content, source);
    if (token.special) special.Insert(token.id);
    if (token.IsControl()) control.Insert(token.id);
  }
  raw_matcher = AddedTokenMatcher(std::move(raw), std::move(raw_contents), source);
  normalized_matcher =
      AddedTokenMatcher(std::move(normalized), std::move(normalized_contents), source);
}

void TokenizerParts::FindEndIds() {
  for (const char* name :
       {"<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>",
        "<end_of_turn>", "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"}) {
    const std::optional<TokenId> id = added_vocabulary.Find(name);
    if (id && special.Contains(*id)) specials.end_ids.push_back(*id);
  }
  std::sort(specials.end_ids.begin(), specials.end_ids.end());
  specials.end_ids.erase(std::unique(specials.end_ids.begin(), specials.end_ids.end()),
                         specials.end_ids.end());
}

std::optional<TokenId> TokenizerParts::Find(std::string_view token) const {
  const std::optional<TokenId> added = added_vocabulary.Find(token);
  return added ? added : model->vocabulary().Find(token);
}

std::string_view TokenizerParts::Text(TokenId id) const {
  return added_vocabulary.Has(id) ? added_vocabulary.Text(id) : model->vocabulary().Text(id);
}

size_t TokenizerParts::vocab_size() const {
  return std::max(added_vocabulary.size(), model->vocabulary().size());
}

}  // namespace banyan
