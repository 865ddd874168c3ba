#include "serve/completion_logprobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/characters.h"
#include "load/model_parts.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Ids that only pad the vocabulary have no bytes.
std::string BytesOf(const Text& text, TokenId token) {
  if (token < 0 || token >= text.vocab_size()) return {};
  return text.parts().tokenizer->TokenBytes(token);
}

// The decimals that read back as the same float32; OpenAI's word for "never" is -9999.
double Logprob(float value) {
  return std::isfinite(value) ? std::stod(fmt::format("{}", value)) : -9999.0;
}

OrderedJson Entry(const Text& text, TokenId token, float logprob) {
  const std::string bytes = BytesOf(text, token);
  OrderedJson entry;
  entry["token"] = bytes;  // what is no UTF-8 by itself is replaced when it is written
  entry["logprob"] = Logprob(logprob);
  OrderedJson list = OrderedJson::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  entry["bytes"] = std::move(list);
  return entry;
}

}  // namespace

OrderedJson ChatLogprobs(const Text& text, const ScoredTokens& scored) {
  OrderedJson content = OrderedJson::array();
  for (size_t i = 0; i < scored.tokens.size(); ++i) {
    OrderedJson entry = Entry(text, scored.tokens[i], scored.logprobs[i]);
    OrderedJson top = OrderedJson::array();
    if (i < scored.top.size()) {
      for (const ScoredToken& other : scored.top[i]) {
        top.push_back(Entry(text, other.token, other.logprob));
      }
    }
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return OrderedJson{{"content", std::move(content)}, {"refusal", nullptr}};
}

OrderedJson TextLogprobs(const Text& text, const ScoredTokens& scored, size_t& offset) {
  OrderedJson tokens = OrderedJson::array(), logprobs = OrderedJson::array(),
              top = OrderedJson::array(), offsets = OrderedJson::array();
  for (size_t i = 0; i < scored.tokens.size(); ++i) {
    const std::string bytes = BytesOf(text, scored.tokens[i]);
    tokens.push_back(bytes);
    logprobs.push_back(Logprob(scored.logprobs[i]));
    offsets.push_back(offset);
    offset += static_cast<size_t>(CountCharacters(bytes));
    if (i >= scored.top.size()) continue;
    OrderedJson others = OrderedJson::object();
    for (const ScoredToken& other : scored.top[i]) {
      others[BytesOf(text, other.token)] = Logprob(other.logprob);
    }
    top.push_back(std::move(others));
  }
  OrderedJson json;
  json["tokens"] = std::move(tokens);
  json["token_logprobs"] = std::move(logprobs);
  json["top_logprobs"] = scored.top.empty() ? OrderedJson() : std::move(top);
  json["text_offset"] = std::move(offsets);
  return json;
}

}  // namespace banyan
