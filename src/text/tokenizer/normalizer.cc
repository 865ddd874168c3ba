// The steps of normalizers, then the charsmap.
#include "text/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "text/tokenizer/vocabulary.h"
#include "text/unicode.h"

namespace banyan {

namespace {

// U+FDFA grows elevenfold under NFKC, the most of all characters; more is a hostile file.
constexpr size_t kMaxGrowth = 64;
constexpr size_t kAlwaysAllowedBytes = 1 << 16;

// Rebuilds a text from edit(code, out) of each of its characters.
template <typename Edit>
void RebuildCharacters(std::string& text, Edit edit) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Character c = ReadUtf8(text, i);
    edit(c.code, out);
    i += c.length;
  }
  text = std::move(out);
}

void RemoveNonspacingMarks(std::string& text) {
  RebuildCharacters(text, [](char32_t code, std::string& out) {
    if (!IsNonspacingMark(code)) AppendUtf8(code, out);
  });
}

bool IsBertControl(char32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  return IsControl(code);
}

void CleanBertText(std::string& text) {
  RebuildCharacters(text, [](char32_t code, std::string& out) {
    if (code == 0 || code == kReplacementCharacter || IsBertControl(code)) return;
    if (IsWhitespace(code)) {
      out.push_back(' ');
    } else {
      AppendUtf8(code, out);
    }
  });
}

void SeparateChinese(std::string& text) {
  RebuildCharacters(text, [](char32_t code, std::string& out) {
    const bool chinese = IsChineseCharacter(code);
    if (chinese) out.push_back(' ');
    AppendUtf8(code, out);
    if (chinese) out.push_back(' ');
  });
}

void Lowercase(std::string& text) {
  RebuildCharacters(text, [](char32_t code, std::string& out) { AppendLowercase(code, out); });
}

void CheckGrowth(size_t result, size_t original) {
  if (result > kAlwaysAllowedBytes && result / kMaxGrowth > original) {
    Throw(ErrorKind::kLimit, "normalisation makes {} bytes of {}: more than {} times as many",
          result, original, kMaxGrowth);
  }
}

// Length of the grapheme cluster at the start of `text`.
size_t GraphemeLength(std::string_view text) {
  Utf8Character previous = ReadUtf8(text, 0);
  size_t length = previous.length;
  utf8proc_int32_t state = 0;
  while (length < text.size()) {
    const Utf8Character next = ReadUtf8(text, length);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(previous.code),
                                         static_cast<utf8proc_int32_t>(next.code), &state)) {
      break;
    }
    length += next.length;
    previous = next;
  }
  return length;
}

void AppendMapped(const Charsmap& charsmap, std::string_view grapheme, std::string& out) {
  constexpr size_t kLongestWhole = 5;  // longer clusters are mapped character by character
  if (grapheme.size() <= kLongestWhole) {
    if (const auto match = charsmap.FindShortest(grapheme)) {
      out += match->replacement;
      return;
    }
  }
  for (size_t i = 0; i < grapheme.size();) {
    const std::string_view character = grapheme.substr(i, ReadUtf8(grapheme, i).length);
    const auto match = charsmap.FindShortest(character);
    out += match ? match->replacement : character;
    i += character.size();
  }
}

// Characters that SentencePiece's NMT rules drop or turn into a space.
bool IsNmtDropped(char32_t code) {
  return (code >= 0x01 && code <= 0x08) || code == 0x0B || (code >= 0x0E && code <= 0x1F) ||
         code == 0x7F || code == 0x8F || code == 0x9F;
}
bool IsNmtSpace(char32_t code) {
  return code == 0x09 || code == 0x0A || code == 0x0C || code == 0x0D || code == 0x1680 ||
         (code >= 0x200B && code <= 0x200F) || code == 0x2028 || code == 0x2029 || code == 0x2581 ||
         code == 0xFEFF || code == 0xFFFD;
}

}  // namespace

void Normalizer::Apply(std::string& text, bool continues) const {
  const size_t original = text.size();
  for (const Step& step : steps_) {
    if (continues && step.effect == Effect::kPrepend) continue;
    step.apply(text);
    CheckGrowth(text.size(), original);
  }
}

bool Normalizer::Keeps(std::string_view text) const {
  const auto all = [&](auto is) {
    return std::all_of(steps_.begin(), steps_.end(),
                       [&](const Step& step) { return is(step.effect); });
  };
  if (steps_.empty()) return true;
  if (all([](Effect effect) { return effect == Effect::kNfc; })) return IsSurelyNfc(text);
  return IsAscii(text) &&
         all([](Effect effect) { return effect == Effect::kNfc || effect == Effect::kNormalForm; });
}

bool Normalizer::AllowsCutsBeforeSpaces() const {
  return std::none_of(steps_.begin(), steps_.end(),
                      [](const Step& step) { return step.effect == Effect::kAny; });
}

void ReplaceAll(std::string& text, std::string_view pattern, std::string_view content) {
  size_t at = text.find(pattern);
  if (at == std::string::npos || pattern.empty()) return;
  std::string out;
  size_t done = 0;
  for (; at != std::string::npos; at = text.find(pattern, done)) {
    out.append(text, done, at - done).append(content);
    done = at + pattern.size();
    CheckGrowth(out.size(), text.size());
  }
  out.append(text, done);
  text = std::move(out);
}

void ReplaceAll(std::string& text, const Regex& pattern, std::string_view content) {
  std::vector<TextRange> matches;
  pattern.FindAll(text, matches);
  if (matches.empty()) return;
  std::string out;
  size_t done = 0;
  for (const TextRange& match : matches) {
    out.append(text, done, match.begin - done).append(content);
    done = match.end;
    CheckGrowth(out.size(), text.size());
  }
  out.append(text, done);
  text = std::move(out);
}

NormalizerStep NormalFormStep(NormalForm form) {
  return [form](std::string& text) { text = ToNormalForm(text, form); };
}

NormalizerStep LowercaseStep() { return Lowercase; }

NormalizerStep StripAccentsStep() {
  return [](std::string& text) {
    RebuildCharacters(text, [](char32_t code, std::string& out) {
      if (!IsMark(code)) AppendUtf8(code, out);
    });
  };
}

NormalizerStep BertStep(BertNormalizerOptions options) {
  return [options](std::string& text) {
    if (options.clean_text) CleanBertText(text);
    if (options.handle_chinese_chars) SeparateChinese(text);
    if (options.strip_accents) {
      text = ToNormalForm(text, NormalForm::kNfd);
      RemoveNonspacingMarks(text);
    }
    if (options.lowercase) Lowercase(text);
  };
}

NormalizerStep PrependStep(std::string prefix) {
  return [prefix = std::move(prefix)](std::string& text) {
    if (!text.empty()) text.insert(0, prefix);
  };
}

NormalizerStep StripStep(bool left, bool right) {
  return [left, right](std::string& text) {
    size_t begin = 0;
    size_t end = 0;  // after the last character that is not a space
    bool leading = true;
    for (size_t i = 0; i < text.size();) {
      const Utf8Character c = ReadUtf8(text, i);
      i += c.length;
      if (!IsWhitespace(c.code)) {
        end = i;
        leading = false;
      } else if (leading) {
        begin = i;
      }
    }
    if (!left) begin = 0;
    if (!right) end = text.size();
    text = end > begin ? text.substr(begin, end - begin) : std::string();
  };
}

NormalizerStep ReplaceStringStep(std::string pattern, std::string content) {
  return [pattern = std::move(pattern), content = std::move(content)](std::string& text) {
    ReplaceAll(text, pattern, content);
  };
}

NormalizerStep ReplaceRegexStep(std::shared_ptr<const Regex> pattern, std::string content) {
  return [pattern = std::move(pattern), content = std::move(content)](std::string& text) {
    ReplaceAll(text, *pattern, content);
  };
}

NormalizerStep NmtStep() {
  return [](std::string& text) {
    RebuildCharacters(text, [](char32_t code, std::string& out) {
      if (IsNmtDropped(code)) return;
      AppendUtf8(IsNmtSpace(code) ? U' ' : code, out);
    });
  };
}

NormalizerStep ByteLevelStep() {
  return [](std::string& text) {
    std::string out;
    AppendByteLevel(text, out);
    text = std::move(out);
  };
}

NormalizerStep CharsmapStep(std::shared_ptr<const Charsmap> charsmap) {
  return [charsmap = std::move(charsmap)](std::string& text) {
    std::string out;
    out.reserve(text.size());
    const std::string_view view = text;
    for (size_t i = 0; i < view.size();) {
      const size_t length = GraphemeLength(view.substr(i));
      AppendMapped(*charsmap, view.substr(i, length), out);
      CheckGrowth(out.size(), text.size());
      i += length;
    }
    text = std::move(out);
  };
}

NormalizerStep SentencePieceStep(std::shared_ptr<const Charsmap> charsmap,
                                 SentencePieceSpaces spaces) {
  return [charsmap = std::move(charsmap), spaces](std::string& text) {
    static constexpr std::string_view kSpace = "\u2581";
    std::string out;
    bool in_word = false;
    bool prefix_done = false;
    const auto append = [&](std::string_view piece) {
      for (const char c : piece) {
        if (c == ' ') {
          in_word = false;
          if (!spaces.merge_runs) out += kSpace;
          continue;
        }
        if (!in_word && (spaces.merge_runs || (spaces.add_prefix && !prefix_done))) {
          out += kSpace;
          prefix_done = true;
        }
        in_word = true;
        out.push_back(c);
      }
    };
    const std::string_view view = text;
    for (size_t i = 0; i < view.size();) {
      const auto match = charsmap ? charsmap->FindLongest(view.substr(i)) : std::nullopt;
      const size_t length = match ? match->length : ReadUtf8(view, i).length;
      append(match ? match->replacement : view.substr(i, length));
      CheckGrowth(out.size(), text.size());
      i += length;
    }
    // A damaged table may match half a character.
    if (IsValidUtf8(out)) {
      text = std::move(out);
    } else {
      text.clear();
      AppendLossyUtf8(out, text);
    }
  };
}

namespace {

// Fields of a unit of the double array (the layout of darts-clone).
bool HasLeaf(std::uint32_t unit) { return ((unit >> 8) & 1) != 0; }
std::uint32_t Value(std::uint32_t unit) { return unit & 0x7FFFFFFFu; }
std::uint32_t Label(std::uint32_t unit) { return unit & 0x800000FFu; }
std::uint32_t Offset(std::uint32_t unit) { return (unit >> 10) << ((unit & 0x200u) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view blob, const std::string& what) {
  const auto byte = [&](size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(blob[i]));
  };
  const auto word = [&](size_t i) {
    return byte(i) | (byte(i + 1) << 8) | (byte(i + 2) << 16) | (byte(i + 3) << 24);
  };
  if (blob.size() < 4) {
    Throw(ErrorKind::kFormat, "{}: expected at least 4 bytes, found {}", what, blob.size());
  }
  const size_t trie_bytes = word(0);
  if (trie_bytes % 4 != 0 || trie_bytes > blob.size() - 4) {
    Throw(ErrorKind::kFormat, "{}: its table claims {} bytes of {}", what, trie_bytes,
          blob.size() - 4);
  }
  units_.reserve(trie_bytes / 4);
  for (size_t i = 0; i < trie_bytes; i += 4) units_.push_back(word(4 + i));
  texts_ = blob.substr(4 + trie_bytes);
  if (!IsValidUtf8(texts_)) Throw(ErrorKind::kFormat, "{}: its texts are not UTF-8", what);
}

std::optional<Charsmap::Match> Charsmap::Find(std::string_view text, bool longest) const {
  if (units_.empty()) return std::nullopt;
  std::optional<Match> found;
  size_t node = Offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto label = static_cast<unsigned char>(text[i]);
    if (label == 0) break;
    node ^= label;
    if (node >= units_.size() || Label(units_[node]) != label) break;
    const std::uint32_t unit = units_[node];
    node ^= Offset(unit);
    if (!HasLeaf(unit)) continue;
    if (node >= units_.size()) break;
    const size_t begin = Value(units_[node]);
    if (begin > texts_.size()) break;
    // A replacement that begins inside a character can only come from a damaged table.
    if (begin < texts_.size() && (static_cast<unsigned char>(texts_[begin]) & 0xC0) == 0x80) break;
    const size_t end = texts_.find('\0', begin);
    found = Match{i + 1, std::string_view(texts_).substr(begin, end - begin)};
    if (!longest) break;
  }
  return found;
}

std::string DecodeBase64(std::string_view text, const std::string& what) {
  static constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<int, 256> value;
  value.fill(-1);
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    value[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int>(i);
  }
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::string out;
  out.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int digit = value[static_cast<unsigned char>(c)];
    if (digit < 0) Throw(ErrorKind::kFormat, "{}: expected base64", what);
    bits = ((bits << 6) | static_cast<std::uint32_t>(digit)) & 0xFFFFFFu;
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>((bits >> count) & 0xFF));
    }
  }
  return out;
}

}  // namespace banyan
