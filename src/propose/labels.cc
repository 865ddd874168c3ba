#include "propose/labels.h"

#include <algorithm>
#include <array>
#include <optional>

#include "propose/label_lines.h"
#include "values/value_text.h"

namespace banyan {
namespace {

// Words that begin a sentence or a salutation, not a label.
constexpr std::string_view kNoFirstWords =
    "dear hello hi hey please thanks thank if when and or but we you i this these here there http "
    "https mailto note ps nb warning example hallo bonjour cher chere sehr liebe lieber bitte";

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

// Characters up to a byte, for bytes that come in rising order.
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

bool BeginsASentence(std::string_view first_word) {
  return ListHasWord(kNoFirstWords, FoldedText(first_word));
}

}  // namespace banyan
