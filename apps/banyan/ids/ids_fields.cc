#include "ids/ids_fields.h"

#include <fmt/format.h>

#include "banyan/error.h"

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

}  // namespace banyan::app
