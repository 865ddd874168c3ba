#include "propose/label_lines.h"

#include <algorithm>
#include <string>

namespace banyan {
namespace {

constexpr size_t kMostLabelBytes = 40, kMostLabelWords = 5;
constexpr std::string_view kWideColon = "\xEF\xBC\x9A";
// Marks of lists and of Markdown before a label: - * + > # _ and the bullets below.
constexpr std::string_view kMarks = "-*+>#_`";
constexpr std::string_view kBullets[] = {"\xE2\x80\xA2", "\xC2\xB7",     "\xE2\x80\x93",
                                         "\xE2\x80\x94", "\xE2\x96\xAA", "\xE2\x9C\x93"};

bool IsSpaceByte(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool IsDigitByte(char c) { return c >= '0' && c <= '9'; }
bool IsLetterByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
}

ByteRange Trimmed(std::string_view text, ByteRange range) {
  while (range.begin < range.end && IsSpaceByte(text[range.begin])) ++range.begin;
  while (range.end > range.begin && IsSpaceByte(text[range.end - 1])) --range.end;
  return range;
}

size_t BulletAt(std::string_view text, size_t at) {
  for (const std::string_view bullet : kBullets) {
    if (text.substr(at, bullet.size()) == bullet) return bullet.size();
  }
  return 0;
}

// Marks, bullets and space.
size_t SkipMarks(std::string_view text, ByteRange range) {
  constexpr size_t kMostMarks = 24;  // bytes
  size_t at = range.begin;
  while (at < std::min(range.end, range.begin + kMostMarks)) {
    if (IsSpaceByte(text[at]) || kMarks.find(text[at]) != std::string_view::npos) {
      ++at;
    } else if (const size_t bullet = BulletAt(text, at); bullet > 0 && at + bullet <= range.end) {
      at += bullet;
    } else {
      break;
    }
  }
  return at;
}

// Without emphasis at either end.
ByteRange Plain(std::string_view text, ByteRange range) {
  const auto is_mark = [](char c) { return c == '*' || c == '_' || c == '`' || IsSpaceByte(c); };
  while (range.begin < range.end && is_mark(text[range.begin])) ++range.begin;
  while (range.end > range.begin && is_mark(text[range.end - 1])) --range.end;
  return range;
}

// The pair that begins at `range.begin`; its value goes to the range's end.
std::optional<LabelledRange> PairAt(std::string_view text, ByteRange range) {
  const size_t begin = SkipMarks(text, range);
  const size_t most = std::min(range.end, begin + kMostLabelBytes + 4);
  for (size_t at = begin; at < most; ++at) {
    const bool wide = text.substr(at, kWideColon.size()) == kWideColon;
    if (text[at] != ':' && text[at] != '=' && !wide) continue;
    const size_t after = at + (wide ? kWideColon.size() : 1);
    const bool ends = after >= range.end || IsSpaceByte(text[after]) || text[after] == '*';
    if (!wide && text[at] == ':' && !ends) return std::nullopt;  // a time, an address
    const ByteRange label = Plain(text, {begin, at});
    if (!IsLabel(text.substr(label.begin, label.end - label.begin))) return std::nullopt;
    return LabelledRange{label, Plain(text, {std::min(after, range.end), range.end})};
  }
  return std::nullopt;
}

}  // namespace

std::vector<ByteRange> LinesOf(std::string_view document) {
  std::vector<ByteRange> lines;
  size_t begin = 0;
  while (begin <= document.size()) {
    const size_t end = std::min(document.find('\n', begin), document.size());
    lines.push_back(Trimmed(document, {begin, end}));
    begin = end + 1;
  }
  return lines;
}

std::vector<ByteRange> CellsOf(std::string_view document, ByteRange line) {
  std::vector<ByteRange> cells;
  size_t begin = line.begin;
  const auto close = [&](size_t end) {
    const ByteRange cell = Trimmed(document, {begin, end});
    if (cell.begin < cell.end) cells.push_back(cell);
  };
  size_t at = line.begin;
  while (at < line.end) {
    const char c = document[at];
    size_t run = 1;
    while (at + run < line.end && document[at + run] == c) ++run;
    const bool divides = c == '\t' || c == '|' || (c == ' ' && run >= 2) ||
                         (c == '.' && run >= 3 && at + run < line.end);
    if (divides) {
      close(at);
      begin = at + run;
    }
    at += run;
  }
  close(line.end);
  return cells;
}

std::vector<LabelledRange> PairsOf(std::string_view document, ByteRange cell) {
  std::vector<LabelledRange> pairs;
  const auto take = [&](ByteRange rest, size_t divider) {
    const std::optional<LabelledRange> pair = PairAt(document, rest);
    if (!pair) return;
    if (!pairs.empty()) pairs.back().value = Plain(document, {pairs.back().value.begin, divider});
    pairs.push_back(*pair);
  };
  take(cell, cell.begin);
  if (pairs.empty()) return pairs;
  for (size_t at = pairs[0].value.begin; at < cell.end; ++at) {
    size_t divider = BulletAt(document, at);
    const bool spaced_slash = document[at] == '/' && document[at - 1] == ' ';
    if (document[at] == ';' || document[at] == ',' || spaced_slash) divider = 1;
    if (divider > 0 && at + divider < cell.end) take({at + divider, cell.end}, at);
  }
  return pairs;
}

std::optional<ByteRange> ItemOf(std::string_view document, ByteRange line) {
  size_t at = line.begin;
  while (at < line.end && IsDigitByte(document[at]) && at < line.begin + 3) ++at;
  const bool numbered =
      at > line.begin && at < line.end && (document[at] == '.' || document[at] == ')');
  size_t marked = numbered ? at + 1 : line.begin;
  if (!numbered && line.begin < line.end) {
    if (document[line.begin] == '-' || document[line.begin] == '*' || document[line.begin] == '+') {
      ++marked;
    }
    marked += BulletAt(document, line.begin);
  }
  if (marked == line.begin || marked >= line.end || !IsSpaceByte(document[marked])) {
    return std::nullopt;
  }
  const ByteRange item = Plain(document, {marked, line.end});
  if (item.begin >= item.end) return std::nullopt;
  return item;
}

bool IsTableRule(std::string_view line) {
  if (line.find("--") == std::string_view::npos || line.find('|') == std::string_view::npos) {
    return false;
  }
  return line.find_first_not_of("-|:+ \t") == std::string_view::npos;
}

bool IsLabel(std::string_view text) {
  if (text.size() < 2 || text.size() > kMostLabelBytes || !IsLetterByte(text[0])) return false;
  size_t words = 0, letters = 0, word_letters = 0, word_digits = 0;
  int open = 0;
  std::string_view first_word = text.substr(0, text.find_first_of(" \t"));
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ' ';
    if (IsLetterByte(c)) {
      ++letters, ++word_letters;
    } else if (IsDigitByte(c)) {
      ++word_digits;
    } else if (c == ' ' || c == '\t') {
      const bool number = word_digits > 0 && word_letters == 0;
      if (number && open == 0) return false;
      words += word_letters > 0 && open == 0 ? 1 : 0;
      word_letters = word_digits = 0;
    } else if (c == '.') {
      if (word_letters == 0 || word_letters > 5) return false;  // the end of a sentence
    } else if (c == '(') {
      ++open;
    } else if (c == ')') {
      if (--open < 0) return false;
    } else if (std::string_view("-/&'#%_").find(c) == std::string_view::npos) {
      return false;
    }
  }
  return open == 0 && letters >= 2 && words >= 1 && words <= kMostLabelWords &&
         !BeginsASentence(first_word);
}

bool HasDigit(std::string_view text) { return std::ranges::any_of(text, IsDigitByte); }

}  // namespace banyan
