// Rows of JSONL files by their ids; answers normalised and compared as SQuAD does.
#include <map>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/byte_source.h"
#include "base/characters.h"
#include "base/error.h"
#include "base/json.h"
#include "tasks/score/score_rows.h"
#include "text/unicode.h"

namespace banyan {

namespace {

constexpr size_t kMostRowBytes = 256u << 20;

template <typename Key>
std::map<std::string, Json> RowsByKey(const std::string& file, const Key& key_of) {
  LineReader reader(OpenByteSource(file, nullptr), kMostRowBytes);
  std::map<std::string, Json> rows;
  std::string line;
  while (reader.Next(line)) {
    if (IsBlank(line) && !reader.too_long()) continue;
    const auto refuse = [&](const char* why) {
      Throw(ErrorKind::kInput, "{}, line {}: {}", file, reader.number(), why);
    };
    if (reader.too_long()) refuse("too long");
    Json row;
    try {
      row = ParseJsonRow(line);
    } catch (const Error&) {
      refuse("not valid JSON");
    }
    if (!row.is_object() || !row.contains("id")) refuse("expected an object with an 'id'");
    const std::string key = key_of(row);
    rows[key] = std::move(row);
  }
  return rows;
}

}  // namespace

std::map<std::string, Json> RowsById(const std::string& file) {
  return RowsByKey(file, [](const Json& row) { return DumpJson(row.at("id")); });
}

std::map<std::string, Json> RowsByAnswer(const std::string& file) {
  return RowsByKey(file, [](const Json& row) {
    return KeyOfAnswer(row.at("id"), row.value("question_id", Json()));
  });
}

std::string KeyOfAnswer(const Json& id, const Json& question_id) {
  return DumpJson(Json::array({id, question_id}));
}

namespace {

constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

using Words = std::vector<std::string>;

Words SplitWords(const std::string& text) {
  std::istringstream stream(text);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool IsArticle(std::string_view word) { return word == "a" || word == "an" || word == "the"; }

// What Python's \w takes, by which SQuAD's script finds articles.
bool IsLetterOrDigit(char32_t code) {
  return IsNumeric(code) || (IsWordCharacter(code) && !IsMark(code));
}

// Lower case, without ASCII punctuation; white space is a space.
std::string WithoutPunctuation(const std::string& text) {
  std::string plain;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character character = ReadUtf8(text, at);
    const std::string_view bytes = std::string_view(text).substr(at, character.length);
    at += character.length;
    if (!character.valid || kPunctuation.find(bytes) != std::string_view::npos) continue;
    if (IsWhitespace(character.code)) {
      plain += ' ';
    } else {
      AppendLowercase(character.code, plain);
    }
  }
  return plain;
}

// Articles become a space, also where a sign such as “ stands beside them.
std::string WithoutArticles(const std::string& text) {
  std::string kept, word;
  const auto end_word = [&] {
    kept += IsArticle(word) ? " " : word;
    word.clear();
  };
  for (size_t at = 0; at < text.size();) {
    const Utf8Character character = ReadUtf8(text, at);
    const std::string_view bytes = std::string_view(text).substr(at, character.length);
    at += character.length;
    if (IsLetterOrDigit(character.code)) {
      word += bytes;
    } else {
      end_word();
      kept += bytes;
    }
  }
  end_word();
  return kept;
}

std::optional<std::string> ChoiceOfLetter(std::string_view answer, const Json& choices) {
  answer = Trimmed(answer);
  if (!answer.empty() && answer.front() == '(') answer.remove_prefix(1);
  if (answer.size() == 2 && std::string_view(").:").find(answer[1]) != std::string_view::npos) {
    answer.remove_suffix(1);
  }
  if (answer.size() != 1) return std::nullopt;
  const char letter = static_cast<char>(answer[0] & ~0x20);  // in upper case
  if (letter < 'A' || letter > 'Z') return std::nullopt;
  const auto place = static_cast<size_t>(letter - 'A');
  if (place >= choices.size() || !choices[place].is_string()) return std::nullopt;
  return choices[place].get<std::string>();
}

}  // namespace

std::string NormalizedAnswer(const std::string& text) {
  std::string normal;
  for (const std::string& word : SplitWords(WithoutArticles(WithoutPunctuation(text)))) {
    normal += (normal.empty() ? "" : " ") + word;
  }
  return normal;
}

double AnswerF1(const std::string& answer, const std::string& gold) {
  const Words a = SplitWords(NormalizedAnswer(answer)), b = SplitWords(NormalizedAnswer(gold));
  std::map<std::string, int> left;
  for (const std::string& word : b) ++left[word];
  double common = 0.0;
  for (const std::string& word : a) {
    if (left[word]-- > 0) common += 1.0;
  }
  if (common == 0.0) return a == b ? 1.0 : 0.0;
  return 2.0 * common / static_cast<double>(a.size() + b.size());
}

std::string ChosenText(const Json& question, const std::string& answer) {
  const auto choices = question.find("choices");
  if (choices == question.end() || !choices->is_array()) return answer;
  const std::string normal = NormalizedAnswer(answer);
  for (const Json& choice : *choices) {
    if (choice.is_string() && NormalizedAnswer(choice.get<std::string>()) == normal) return answer;
  }
  return ChoiceOfLetter(answer, *choices).value_or(answer);
}

std::vector<std::string> RightAnswers(const Json& question, const std::string& where) {
  const auto choices = question.find("choices"), right = question.find("right");
  if (choices != question.end() && right != question.end()) {
    const bool fits = choices->is_array() && right->is_number_unsigned() &&
                      right->get<size_t>() < choices->size() &&
                      (*choices)[right->get<size_t>()].is_string();
    if (!fits) Throw(ErrorKind::kInput, "{}: 'right': expected the number of a choice", where);
    return {(*choices)[right->get<size_t>()].get<std::string>()};
  }
  const auto given = question.find("answers");
  if (given == question.end() || !given->is_array()) {
    Throw(ErrorKind::kInput, "{}: expected 'answers', a list of texts", where);
  }
  std::vector<std::string> answers;
  for (const Json& answer : *given) {
    if (answer.is_string()) answers.push_back(ChosenText(question, answer.get<std::string>()));
  }
  return answers;
}

}  // namespace banyan
