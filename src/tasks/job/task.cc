#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <utility>

#include "base/characters.h"
#include "tasks/job/task.h"

namespace banyan {

std::vector<OutputRow> RecordWork::Rows() {
  std::vector<OutputRow> rows;
  const auto count = static_cast<size_t>(row_count());
  for (size_t row = 0; row < count; ++row) rows.push_back(Row(row));
  return rows;
}

nlohmann::ordered_json ErrorAt(const RowPlace& place, const RowProblem& problem) {
  const std::string where =
      place.line > 0 ? fmt::format("{}, line {}", place.file, place.line) : place.file;
  // What could not be opened names itself.
  const bool named = !place.file.empty() && problem.message.starts_with(place.file + ": ");
  return {{"kind", ErrorKindName(problem.kind)},
          {"message", named ? problem.message : fmt::format("{}: {}", where, problem.message)},
          {"file", place.file},
          {"line", place.line}};
}

std::string_view LiveText::Answer() const { return Trimmed(text_); }

std::string LiveText::TakeUntil(size_t end) {
  if (end <= taken_) return {};
  const size_t from = std::exchange(taken_, end);
  return std::string(Answer().substr(from, end - from));
}

std::string LiveText::Take(const Rules& rules) {
  const std::string_view answer = Answer();
  if (!rules.sure || MayBecomeNothing(answer, rules.null_text)) return {};
  size_t end = answer.size();
  // With a space after it the last word is whole.
  const bool ended = kSpaces.find(text_.back()) != std::string_view::npos;
  if (rules.whole_words && !ended) {
    end = answer.find_last_of(kSpaces);
    if (end == std::string_view::npos) return {};
    end = answer.find_last_not_of(kSpaces, end) + 1;
  }
  return TakeUntil(end);
}

std::string LiveText::TakeAll() { return TakeUntil(Answer().size()); }

std::string LiveText::TakeRest(std::string_view answer) {
  // What was shown is how the answer begins, unless the row has another one.
  const std::string_view shown = Answer().substr(0, taken_);
  if (!answer.starts_with(shown)) return {};
  taken_ = std::max(taken_, answer.size());
  return std::string(answer.substr(shown.size()));
}

std::string ComparableAnswer(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isspace(byte)) {
      if (!out.empty() && out.back() != ' ') out += ' ';
    } else if (byte >= 0x80 || std::isalnum(byte)) {
      out += byte < 0x80 ? static_cast<char>(std::tolower(byte)) : c;
    }
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

bool SaysNothing(const std::string& answer, const std::string& null_text) {
  const std::string normal = ComparableAnswer(answer);
  return normal.empty() || normal == ComparableAnswer(null_text);
}

bool MayBecomeNothing(std::string_view text, const std::string& null_text) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return text.size() <= null_text.size() &&
         std::equal(text.begin(), text.end(), null_text.begin(),
                    [&](char a, char b) { return lower(a) == lower(b); });
}

}  // namespace banyan
