#include "ids/ids_rows.h"

#include <fmt/format.h>

#include <cmath>

#include "banyan/constrain.h"
#include "ids/ids_experts.h"
#include "ids/ids_fields.h"

namespace banyan::app {

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

namespace {

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
