// Checks the fields of a row one by one: a bad question does not fail the record.
#include "tasks/ask/ask_record.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "base/characters.h"
#include "base/error.h"
#include "base/json.h"
#include "tasks/input/field_names.h"
#include "text/unicode.h"

namespace banyan {
namespace {

constexpr size_t kMostQuestions = 100'000;

constexpr std::array<std::string_view, 7> kFields = {
    "id", "context", "instruction", "questions", "question", "question_id", "choices"};

const std::string& TextField(const Json& object, const char* name) {
  const auto it = object.find(name);
  if (it == object.end() || it->is_null()) {
    Throw(ErrorKind::kInput, "expected the field '{}', found none{}", name,
          DidYouMeanField(object, name, kFields));
  }
  if (!it->is_string()) {
    Throw(ErrorKind::kInput, "'{}': expected text, found {}", name, TypeName(*it));
  }
  return it->get_ref<const std::string&>();
}

// A list of texts, or, from CSV, the JSON of one.
std::vector<std::string> ReadChoices(const Json& value) {
  if (value.is_null()) return {};
  Json list = value;
  if (list.is_string()) {
    if (IsBlank(list.get_ref<const std::string&>())) return {};
    try {
      list = ParseJsonRow(value.get_ref<const std::string&>());
    } catch (const Error&) {
      list = Json();
    }
  }
  if (!list.is_array() || list.empty()) {
    Throw(ErrorKind::kInput, "'choices': expected a list of texts, found {}", TypeName(value));
  }
  std::vector<std::string> choices;
  std::set<std::string> seen;
  for (const Json& choice : list) {
    if (!choice.is_string() || IsBlank(choice.get_ref<const std::string&>())) {
      Throw(ErrorKind::kInput, "'choices': expected texts that are not empty, found {}",
            DumpJson(choice));
    }
    choices.push_back(choice.get<std::string>());
    if (!seen.insert(choices.back()).second) {
      Throw(ErrorKind::kInput, "'choices': expected different texts, found {} twice",
            DumpJson(choice));
    }
  }
  return choices;
}

// `value` is a text or an object with "question".
AskQuestion ReadQuestion(const Json& value) {
  AskQuestion question;
  try {
    if (value.is_string()) {
      question.question = value.get<std::string>();
    } else if (value.is_object()) {
      const auto id = value.find("id");
      if (id != value.end() && !id->is_null()) {
        if (!id->is_string() && !IsNumber(*id)) {
          Throw(ErrorKind::kInput, "a question's 'id': expected a text or a number, found {}",
                TypeName(*id));
        }
        question.id = *id;
      }
      for (const auto& [name, field] : value.items()) {
        if (name != "id" && name != "question" && name != "choices") question.carried[name] = field;
      }
      question.question = TextField(value, "question");
      question.choices = ReadChoices(value.value("choices", Json()));
    } else {
      Throw(ErrorKind::kInput, "a question: expected an object, found {}", TypeName(value));
    }
    if (IsBlank(question.question)) Throw(ErrorKind::kInput, "'question' is empty");
  } catch (const Error& e) {
    question.problem = {e.kind(), e.what()};
  }
  return question;
}

Json ParseQuestion(std::string_view line, const std::string& where) {
  try {
    return ParseJsonRow(line);
  } catch (const Error& e) {
    Throw(e.kind(), "{}: {}", where, e.what());
  }
}

}  // namespace

bool IsYesNoQuestion(std::string_view question) {
  static const std::set<std::string, std::less<>> first_words = {
      "is",   "are", "am",  "was",   "were", "does",  "do",     "did", "has",
      "have", "had", "can", "could", "will", "would", "should", "may", "must"};
  std::vector<std::string> words(1);
  for (const char c : question) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '\'' ||
                        static_cast<unsigned char>(c) >= 0x80;
    if (letter) {
      words.back() += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return first_words.contains(words.front()) && std::ranges::find(words, "or") == words.end();
}

void NumberQuestions(std::vector<AskQuestion>& questions) {
  std::set<std::string> seen;
  for (AskQuestion& question : questions) {
    if (question.id.is_null()) continue;
    const std::string id = DumpJson(question.id);
    if (seen.insert(id).second || question.problem) continue;
    question.problem = {ErrorKind::kInput,
                        fmt::format("question id {} comes twice in this record", id)};
  }
  for (size_t i = 0; i < questions.size(); ++i) {
    if (!questions[i].id.is_null()) continue;
    size_t number = i + 1;
    while (!seen.insert(std::to_string(number)).second) ++number;
    questions[i].id = number;
  }
}

std::vector<AskQuestion> ReadQuestions(std::string_view text, const std::string& name) {
  std::vector<AskQuestion> questions;
  if (!IsValidUtf8(text)) Throw(ErrorKind::kUsage, "{}: not valid UTF-8", name);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first != std::string_view::npos && (text[first] == '{' || text[first] == '"');
  for (int line_number = 1; !text.empty(); ++line_number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (IsBlank(line)) continue;
    const std::string where = fmt::format("{}, line {}", name, line_number);
    if (line.ends_with('\r')) line.remove_suffix(1);
    questions.push_back(ReadQuestion(json ? ParseQuestion(line, where) : Json(std::string(line))));
    if (questions.back().problem) {
      Throw(ErrorKind::kUsage, "{}: {}", where, questions.back().problem->message);
    }
  }
  if (questions.empty()) Throw(ErrorKind::kUsage, "{}: expected questions, found none", name);
  return questions;
}

bool IsAskField(const std::string& name) {
  return std::ranges::find(kFields, name) != kFields.end();
}

AskRecord ReadAskRecord(const Json& row, const std::vector<AskQuestion>& common) {
  AskRecord record;
  record.id = IdOf(row);
  record.context = TextField(row, "context");
  if (row.contains("instruction") && !row.at("instruction").is_null()) {
    record.instruction = TextField(row, "instruction");
  }
  record.questions = common;
  if (row.contains("questions")) {
    const Json& list = row.at("questions");
    if (!list.is_array()) {
      Throw(ErrorKind::kInput, "'questions': expected a list, found {}", TypeName(list));
    }
    if (list.size() > kMostQuestions) {
      Throw(ErrorKind::kLimit, "'questions': expected at most {}, found {}", kMostQuestions,
            list.size());
    }
    for (const Json& question : list) {
      record.questions.push_back(ReadQuestion(question));
    }
  } else if (row.contains("question")) {
    Json flat = {{"question", row.at("question")}};
    if (row.contains("question_id")) flat["id"] = row.at("question_id");
    if (row.contains("choices")) flat["choices"] = row.at("choices");
    record.questions.push_back(ReadQuestion(flat));
  }
  if (record.questions.empty()) {
    Throw(ErrorKind::kInput,
          "expected questions, found none (the field 'questions', -q TEXT, or --questions FILE){}",
          DidYouMeanField(row, "question", kFields));
  }
  NumberQuestions(record.questions);
  for (const auto& [name, value] : row.items()) {
    if (!IsAskField(name)) record.carried[name] = value;
  }
  return record;
}

}  // namespace banyan
