// Parsing the fields of an input line, formatting an output line.
#include "ids/ids_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "banyan/constrain.h"

namespace banyan::app {
namespace {

// Finds the text of a number that is the line's own "id".
class IdNumber : public nlohmann::json_sax<Json> {
 public:
  const std::string& text() const { return text_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t& text) override {
    if (depth_ == 1 && is_id_) text_ = text;
    return true;
  }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return ++depth_ > 0; }
  bool key(string_t& name) override {
    if (depth_ == 1) is_id_ = name == "id";
    return true;
  }
  bool end_object() override { return depth_-- > 0; }
  bool start_array(size_t) override { return ++depth_ > 0; }
  bool end_array() override { return depth_-- > 0; }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  int depth_ = 0;
  bool is_id_ = false;
  std::string text_;
};

std::string TokensText(const std::vector<TokenId>& tokens) {
  return fmt::format("[{}]", fmt::join(tokens, ","));
}

// Bytes that are no UTF-8 are replaced.
std::string JsonText(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Values of a skeleton, without the stop token that ended them.
std::string Values(const IdsRow& row) {
  std::vector<std::string> tokens, logprobs;
  for (Answer answer : row.answers[0]) {
    if (answer.finish == FinishReason::kStopToken) {
      answer.tokens.pop_back();
      answer.logprobs.pop_back();
    }
    tokens.push_back(TokensText(answer.tokens));
    logprobs.push_back(FloatsText(answer.logprobs));
  }
  std::string text = fmt::format("\"values\":[{}]", fmt::join(tokens, ","));
  if (row.logprobs) text += fmt::format(",\"logprobs\":[{}]", fmt::join(logprobs, ","));
  return text;
}

std::string ExpertsText(const Answer& answer, bool logprobs) {
  std::string text =
      fmt::format("\"tokens\":[{}],\"expert\":[{}],\"betas\":[{}]", fmt::join(answer.tokens, ","),
                  fmt::join(answer.experts, ","), fmt::join(answer.betas, ","));
  if (!answer.abstentions.empty()) {
    text += fmt::format(",\"abstentions\":[{}]", fmt::join(answer.abstentions, ","));
  }
  if (logprobs) text += ",\"logprobs\":" + FloatsText(answer.logprobs);
  return text;
}

std::string Result(const IdsRow& row) {
  if (row.kind == "skeleton") return Values(row);
  if (row.kind == "logits") {
    return "\"last_logits\":" + FloatsText(row.answers[0][0].prompt_logits);
  }
  if (row.kind == "greedy") {
    const Answer& answer = row.answers[0][0];
    std::string text = "\"tokens\":" + TokensText(answer.tokens);
    if (row.logprobs) text += ",\"logprobs\":" + FloatsText(answer.logprobs);
    return text;
  }
  if (row.kind == "experts") return ExpertsText(row.answers[0][0], row.logprobs);
  std::vector<std::string> tokens, logprobs;
  for (const std::vector<Answer>& context : row.answers) {
    std::vector<std::string> token_lists, logprob_lists;
    for (const Answer& answer : context) {
      token_lists.push_back(TokensText(answer.tokens));
      logprob_lists.push_back(FloatsText(answer.logprobs));
    }
    tokens.push_back(fmt::format("[{}]", fmt::join(token_lists, ",")));
    logprobs.push_back(fmt::format("[{}]", fmt::join(logprob_lists, ",")));
  }
  std::string text = fmt::format("\"answers\":[{}]", fmt::join(tokens, ","));
  if (row.logprobs) text += fmt::format(",\"logprobs\":[{}]", fmt::join(logprobs, ","));
  return text;
}

}  // namespace

void BadInput(const std::string& message) { throw Error(ErrorKind::kInput, message); }

Json ParseLine(const std::string& line, std::int64_t number) {
  // Some of what is done with the line later (writing it, the templates of chats) is recursive.
  constexpr int kMaxDepth = 256;
  const auto limit_depth = [&](int depth, Json::parse_event_t event, Json&) {
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth > kMaxDepth) {
      BadInput(fmt::format("line {}: JSON nests deeper than {}", number, kMaxDepth));
    }
    return true;
  };
  try {
    return Json::parse(line, limit_depth);
  } catch (const Json::exception&) {
    BadInput(fmt::format("line {}: not valid JSON", number));
  }
}

std::string IdText(const Json& json, const std::string& line) {
  const Json& id = json.at("id");
  if (!id.is_number_float()) return id.dump(-1, ' ', false, Json::error_handler_t::replace);
  IdNumber number;
  Json::sax_parse(line, &number);
  return number.text();
}

const Json& Field(const Json& line, const char* name) {
  if (!line.contains(name)) BadInput(fmt::format("expected the field '{}', found none", name));
  return line.at(name);
}

int IntField(const Json& line, const char* name, int fallback) {
  if (!line.contains(name)) return fallback;
  const Json& value = line.at(name);
  if (!value.is_number_integer() || value < 0 || value > 1'000'000'000) {
    BadInput(fmt::format("'{}': expected a whole number from 0, found {}", name, value.dump()));
  }
  return value.get<int>();
}

std::string AdapterField(const Json& line) {
  return line.contains("adapter") ? StringField(line, "adapter") : "";
}

double NumberField(const Json& line, const char* name, double fallback) {
  if (!line.contains(name)) return fallback;
  if (!line.at(name).is_number()) {
    BadInput(fmt::format("'{}': expected a number, found {}", name, line.at(name).dump()));
  }
  return line.at(name).get<double>();
}

std::vector<TokenId> TokenList(const Json& value, const char* name) {
  if (!value.is_array()) {
    BadInput(fmt::format("'{}': expected a list of token ids, found {}", name, value.type_name()));
  }
  std::vector<TokenId> tokens;
  tokens.reserve(value.size());
  for (const Json& token : value) {
    if (!token.is_number_integer() || token < -1'000'000'000 || token > 1'000'000'000) {
      BadInput(fmt::format("'{}': expected token ids, found {}", name, token.dump()));
    }
    tokens.push_back(token.get<TokenId>());
  }
  return tokens;
}

std::string StringField(const Json& line, const char* name) {
  const Json& value = Field(line, name);
  if (!value.is_string()) {
    BadInput(fmt::format("'{}': expected a string, found {}", name, value.type_name()));
  }
  return value.get<std::string>();
}

AnswerRequest AnswerFields(const Json& line) {
  AnswerRequest answer;
  answer.max_new = IntField(line, "max_new", 16);
  if (line.contains("stop")) {
    const Json& stop = line.at("stop");
    answer.stop_tokens = TokenList(stop.is_array() ? stop : Json::array({stop}), "stop");
  }
  answer.sampling.temperature = static_cast<float>(NumberField(line, "temperature", 0.0));
  answer.sampling.top_k = IntField(line, "top_k", 0);
  answer.sampling.top_p = static_cast<float>(NumberField(line, "top_p", 1.0));
  answer.sampling.min_p = static_cast<float>(NumberField(line, "min_p", 0.0));
  answer.sampling.repetition_penalty =
      static_cast<float>(NumberField(line, "repetition_penalty", 1.0));
  answer.sampling.seed = static_cast<std::uint64_t>(IntField(line, "seed", 0));
  return answer;
}

// JSON has no infinities.
std::string FloatText(float value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string FloatsText(const std::vector<float>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ',';
    text += FloatText(values[i]);
  }
  return text + "]";
}

std::string EmbeddingFields(const Embedding& embedding, const EmbeddingParts& parts) {
  std::string text = "\"dense\":" + FloatsText(embedding.dense);
  if (parts.sparse) {
    std::vector<std::string> weights;
    for (const auto& [token, weight] : embedding.sparse) {
      weights.push_back(fmt::format("\"{}\":{}", token, FloatText(weight)));
    }
    text += fmt::format(",\"sparse\":{{{}}}", fmt::join(weights, ","));
  }
  if (parts.colbert) {
    std::vector<std::string> vectors;
    for (const std::vector<float>& vector : embedding.colbert) {
      vectors.push_back(FloatsText(vector));
    }
    text += fmt::format(",\"{}\":[{}]", parts.colbert_name, fmt::join(vectors, ","));
  }
  return text;
}

std::string AnswersLine(const IdsRow& row) { return FieldsLine(row.id, Result(row)); }

std::string FieldsLine(const std::string& id, const std::string& fields) {
  return fmt::format("{{\"id\":{},{}}}", id, fields);
}

std::string TokensLine(const std::string& id, const std::vector<TokenId>& tokens) {
  return fmt::format("{{\"id\":{},\"ids\":{}}}", id, TokensText(tokens));
}

std::string TextLine(const std::string& id, const std::string& text) {
  return fmt::format("{{\"id\":{},\"text\":{}}}", id, JsonText(text));
}

std::string MaskLine(const std::string& id, const std::vector<TokenId>& tokens, bool may_end) {
  constexpr size_t kFew = 24;
  std::string text = fmt::format("{{\"id\":{},\"allowed\":{},\"sha256\":\"{}\",\"end\":{}", id,
                                 tokens.size(), TokensDigest(tokens), may_end);
  if (tokens.size() <= kFew) text += ",\"tokens\":" + TokensText(tokens);
  return text + "}";
}

std::string ErrorLine(const std::string& id, ErrorKind kind, const std::string& message) {
  const Json error = {{"kind", ErrorKindName(kind)}, {"message", message}};
  return fmt::format("{{\"id\":{},\"error\":{}}}", id, JsonText(error));
}

}  // namespace banyan::app
