#include "tasks/input/id_column.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <functional>
#include <memory>
#include <utility>

#include "base/byte_source.h"
#include "base/csv.h"
#include "base/error.h"
#include "tasks/input/input_rows.h"

namespace banyan {
namespace {

constexpr std::uintmax_t kMostGuessedBytes = 64u << 20;  // of a table that is read for a guess
constexpr size_t kLongestId = 200;                       // bytes

bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsLetter(char c) { return IsUpper(c) || IsLower(c) || static_cast<unsigned char>(c) >= 0x80; }

// "TicketID" and "ticket_id" → ticket, id. Letters of other alphabets belong to the word they
// stand in.
std::vector<std::string> WordsOfName(std::string_view name) {
  std::vector<std::string> words;
  bool open = false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (!IsLetter(c)) {
      open = false;
      continue;
    }
    if (!open || (IsUpper(c) && IsLower(name[i - 1]))) words.emplace_back();
    open = true;
    words.back() += static_cast<char>(IsUpper(c) ? std::tolower(static_cast<unsigned char>(c)) : c);
  }
  return words;
}

// Words of English, German, French and Spanish, and ends of German ones: Ticketnummer, Belegnr.
constexpr std::array<std::string_view, 4> kIdWords = {"id", "uuid", "guid", "key"};
constexpr std::array<std::string_view, 10> kNumberWords = {
    "number", "nummer", "nr", "no", "num", "numero", "numéro", "número", "n", "sku"};
constexpr std::array<std::string_view, 4> kOtherWords = {"ref", "reference", "code", "clave"};
constexpr std::array<std::string_view, 3> kNumberEnds = {"nummer", "number", "nr"};

template <size_t N>
bool Among(const std::array<std::string_view, N>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

}  // namespace

int IdNameRank(std::string_view name) {
  const std::vector<std::string> words = WordsOfName(name);
  if (words.empty()) return 0;
  const std::string& last = words.back();
  if (Among(kIdWords, last) || Among(kIdWords, words.front())) return 3;
  const bool ends =
      std::ranges::any_of(kNumberEnds, [&](std::string_view end) { return last.ends_with(end); });
  if (ends || Among(kNumberWords, last)) return 2;
  return Among(kOtherWords, last) ? 1 : 0;
}

IdColumnGuess::IdColumnGuess(std::vector<std::string> columns) : columns_(std::move(columns)) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (IdNameRank(columns_[i]) > 0) candidates_.push_back({i, {}});
  }
  std::ranges::stable_sort(candidates_, std::ranges::greater(), [this](const Candidate& one) {
    return IdNameRank(columns_[one.column]);
  });
}

void IdColumnGuess::Add(std::span<const std::string> values) {
  any_rows_ = true;
  std::erase_if(candidates_, [&](Candidate& one) {
    const std::string& value = values[one.column];
    return value.empty() || value.size() > kLongestId ||
           !one.seen.insert(std::hash<std::string>()(value)).second;
  });
}

std::optional<std::string> IdColumnGuess::Best() const {
  if (!any_rows_ || candidates_.empty()) return std::nullopt;
  return columns_[candidates_.front().column];
}

std::optional<std::string> GuessIdColumn(const InputOptions& input) {
  if (input.files.size() != 1 || input.FieldsOf(input.files.front()).contains("id")) return {};
  const std::string& file = input.files.front();
  const auto named = InputKindNamed(input.format);
  const auto kind = named ? named : InputKindOfFile(file);
  std::error_code none;
  if (!kind || (*kind != InputKind::kCsv && *kind != InputKind::kTsv)) return {};
  if (!std::filesystem::is_regular_file(file, none)) return {};
  if (std::filesystem::file_size(file, none) > kMostGuessedBytes) return {};
  try {
    std::unique_ptr<ByteSource> source = OpenByteSource(file);
    if (!input.encoding.empty()) source = DecodedSource(std::move(source), input.encoding);
    char delimiter = *kind == InputKind::kTsv ? '\t' : input.delimiter;
    source = FindDelimiter(std::move(source), delimiter);
    CsvReader rows(std::move(source), kMaxRowBytes, delimiter);
    std::vector<std::string> values;
    if (!rows.Next(values) || !rows.problem().empty()) return {};
    if (std::ranges::find(values, "id") != values.end()) return {};
    const size_t columns = values.size();
    IdColumnGuess guess(values);
    while (!guess.hopeless() && rows.Next(values)) {
      if (!rows.problem().empty() || values.size() != columns) continue;  // an error row
      guess.Add(values);
    }
    return guess.Best();
  } catch (const Error&) {
    return {};  // the job will say what is wrong with the file
  }
}

}  // namespace banyan
