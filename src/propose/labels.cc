// Lines, cells and pairs as byte ranges, then the reader of a document.
#include "propose/labels.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "values/value_text.h"

namespace banyan {
namespace {

struct ByteRange {
  size_t begin = 0, end = 0;
};

struct LabelledRange {
  ByteRange label, value;  // the value may be empty
};

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

// Words that begin a sentence or a salutation, not a label.
constexpr std::string_view kNoFirstWords =
    "dear hello hi hey please thanks thank if when and or but we you i this these here there http "
    "https mailto note ps nb warning example hallo bonjour cher chere sehr liebe lieber bitte";

// Whether "Dear", "Please" or their like begin the text.
bool BeginsASentence(std::string_view first_word) {
  return ListHasWord(kNoFirstWords, FoldedText(first_word));
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

// The pair that begins at `range.begin`; its value extends to the range's end.
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

// Without the space around them; empty lines too.
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

// A line's columns: between them a tab, two spaces or more, a vertical bar or three dots or more.
// None is empty.
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

// The pairs of label and value in a cell.
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

// The item after a bullet or "1."; nullopt when the line has neither.
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

// A line of a Markdown table below its header: |---|:--|
bool IsTableRule(std::string_view line) {
  if (line.find("--") == std::string_view::npos || line.find('|') == std::string_view::npos) {
    return false;
  }
  return line.find_first_not_of("-|:+ \t") == std::string_view::npos;
}

struct Abbreviation {
  std::string_view shortened, word;
};
constexpr std::array kAbbreviations = {
    Abbreviation{"no", "number"},     Abbreviation{"nr", "number"},
    Abbreviation{"num", "number"},    Abbreviation{"numero", "number"},
    Abbreviation{"nummer", "number"}, Abbreviation{"qty", "quantity"},
    Abbreviation{"tel", "phone"},     Abbreviation{"telephone", "phone"},
    Abbreviation{"amt", "amount"},    Abbreviation{"color", "colour"},
    Abbreviation{"flavor", "flavour"}};

std::string Singular(const std::string& word) {
  const size_t n = word.size();
  if (n > 4 && word.ends_with("ies")) return word.substr(0, n - 3) + "y";
  if (n > 3 && word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us") &&
      !word.ends_with("is")) {
    return word.substr(0, n - 1);
  }
  return word;
}

// Counts characters before a byte offset; offsets must be ascending.
class CharacterCounter {
 public:
  explicit CharacterCounter(std::string_view text) : text_(text) {}

  std::int64_t Before(size_t byte) {
    if (byte < byte_) byte_ = 0, characters_ = 0;
    for (; byte_ < byte; ++byte_) {
      if ((static_cast<unsigned char>(text_[byte_]) & 0xC0) != 0x80) ++characters_;
    }
    return characters_;
  }

 private:
  std::string_view text_;
  size_t byte_ = 0;
  std::int64_t characters_ = 0;
};

class LabelReader {
 public:
  explicit LabelReader(std::string_view document)
      : document_(document), lines_(LinesOf(document)), counter_(document) {}

  std::vector<FoundLabel> Read() {
    size_t at = 0;
    while (at < lines_.size() && found_.size() < kMostLabels) {
      const size_t after_table = ReadTable(at);
      at = after_table > at ? after_table : ReadLine(at);
    }
    return std::move(found_);
  }

 private:
  std::string_view Of(ByteRange range) const {
    return document_.substr(range.begin, range.end - range.begin);
  }

  void Add(std::string_view label, std::string value, ByteRange place) {
    if (value.empty() || found_.size() >= kMostLabels) return;
    const std::int64_t begin = counter_.Before(place.begin);
    found_.push_back({std::string(label), std::move(value), {begin, counter_.Before(place.end)}});
  }

  bool HasPair(size_t line) const {
    return std::ranges::any_of(CellsOf(document_, lines_[line]), [&](const ByteRange& cell) {
      return !PairsOf(document_, cell).empty();
    });
  }

  // A header and the rows below it. Returns the line after the table, `at` when there is none.
  size_t ReadTable(size_t at) {
    const std::vector<ByteRange> header = CellsOf(document_, lines_[at]);
    if (header.size() < 2 || at + 1 >= lines_.size()) return at;
    const bool markdown = IsTableRule(Of(lines_[at + 1]));
    if (!markdown && header.size() < 3) return at;
    for (const ByteRange& cell : header) {
      if (!IsLabel(Of(cell))) return at;
    }
    std::vector<std::string> values(header.size());
    std::vector<ByteRange> places(header.size());
    constexpr size_t kMostRows = 200;
    size_t row = at + (markdown ? 2 : 1);
    const size_t first = row;
    for (; row < std::min(lines_.size(), first + kMostRows); ++row) {
      const std::vector<ByteRange> cells = CellsOf(document_, lines_[row]);
      if (cells.size() != header.size()) break;
      for (size_t i = 0; i < cells.size(); ++i) {
        if (row == first) places[i] = cells[i];
        if (!values[i].empty()) values[i] += "; ";
        values[i] += PlainText(Of(cells[i]));
      }
    }
    const bool has_digits = std::ranges::any_of(values, HasDigit);
    if (row == first || (!markdown && !has_digits)) return at;
    for (size_t i = 0; i < header.size(); ++i) Add(Of(header[i]), values[i], places[i]);
    return row;
  }

  // Returns the line after what was read.
  size_t ReadLine(size_t at) {
    const std::vector<ByteRange> cells = CellsOf(document_, lines_[at]);
    size_t next = at + 1;
    bool any = false;
    for (size_t c = 0; c < cells.size(); ++c) {
      for (const LabelledRange& pair : PairsOf(document_, cells[c])) {
        any = true;
        if (pair.value.begin < pair.value.end) {
          Add(Of(pair.label), PlainText(Of(pair.value)), pair.value);
        } else if (c + 1 < cells.size()) {
          if (PairsOf(document_, cells[c + 1]).empty()) {
            Add(Of(pair.label), PlainText(Of(cells[c + 1])), cells[c + 1]);
          }
        } else {
          next = ReadBelow(Of(pair.label), at + 1);
        }
      }
    }
    if (!any && cells.size() == 2 && IsLabel(Of(cells[0])) && HasDigit(Of(cells[1]))) {
      Add(Of(cells[0]), PlainText(Of(cells[1])), cells[1]);
    }
    return next;
  }

  // The value of a label that ends its line.
  size_t ReadBelow(std::string_view label, size_t at) {
    constexpr size_t kMostItems = 64;
    std::string items;
    ByteRange place;
    size_t line = at;
    for (; line < lines_.size() && line < at + kMostItems; ++line) {
      const std::optional<ByteRange> item = ItemOf(document_, lines_[line]);
      if (!item || HasPair(line)) break;
      if (line == at) place = *item;
      place.end = item->end;
      items += (items.empty() ? "" : "; ") + PlainText(Of(*item));
    }
    if (line > at) {
      Add(label, std::move(items), place);
      return line;
    }
    if (at < lines_.size() && lines_[at].begin < lines_[at].end && !HasPair(at)) {
      Add(label, PlainText(Of(lines_[at])), lines_[at]);
      return at + 1;
    }
    return at;
  }

  std::string_view document_;
  std::vector<ByteRange> lines_;
  CharacterCounter counter_;
  std::vector<FoundLabel> found_;
};

}  // namespace

bool HasDigit(std::string_view text) { return std::ranges::any_of(text, IsDigitByte); }

std::vector<FoundLabel> FindLabels(std::string_view document) {
  return LabelReader(document).Read();
}

std::string LabelKey(std::string_view label) {
  const std::string name(label.substr(0, label.find('(')));
  std::string key;
  std::string spelled = name;
  if (const size_t mark = spelled.find('#'); mark != std::string::npos) {
    spelled.replace(mark, 1, " number ");
  }
  for (std::string& word : FoldedWords(spelled)) {
    word = Singular(word);
    for (const Abbreviation& known : kAbbreviations) {
      if (word == known.shortened) word = known.word;
    }
    key += (key.empty() ? "" : " ") + word;
  }
  return key;
}

}  // namespace banyan
