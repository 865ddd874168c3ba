// Tables of equivalent characters, folding, words.
#include "values/value_text.h"

#include <algorithm>

#include "program/message_text.h"
#include "text/unicode.h"

namespace banyan {
namespace {

bool IsInvisible(char32_t code) {
  return (code >= 0x200B && code <= 0x200F) || (code >= 0x202A && code <= 0x202E) || code == 0xAD ||
         code == 0xFEFF || code == 0x2060;
}

bool IsCheckMark(char32_t code) {
  switch (code) {
    case 0x2705:  // ✅
    case 0x2611:  // ☑
    case 0x2713:  // ✓
    case 0x2714:  // ✔
    case 0x2610:  // ☐
    case 0x2612:  // ☒
    case 0x2715:  // ✕
    case 0x2716:  // ✖
    case 0x2717:  // ✗
    case 0x2718:  // ✘
    case 0x274C:  // ❌
    case 0x274E:  // ❎
      return true;
    default:
      return false;
  }
}

void AppendUniform(char32_t code, std::u32string& out) {
  if (code == '\t' || code == '\n' || code == '\r' || code == 0x2028 || code == 0x2029) {
    out += U'\n';
  } else if (code != ' ' && IsWhitespace(code)) {
    out += kGroupSpace;
  } else if (code >= 0xFF01 && code <= 0xFF5E) {  // full width
    out += code - 0xFF01 + '!';
  } else if ((code >= 0x2010 && code <= 0x2015) || code == 0x2212 || code == 0xFE63) {
    out += U'-';
  } else if (code == 0x2018 || code == 0x2019 || code == 0x201B || code == 0x2032 || code == 0xB4 ||
             code == '`') {
    out += U'\'';
  } else if ((code >= 0x201C && code <= 0x201F) || code == 0x2033 || code == 0xAB || code == 0xBB) {
    out += U'"';
  } else if (code == 0x2044 || code == 0x2215) {
    out += U'/';
  } else if (code == 0x3BC) {
    out += char32_t{0xB5};
  } else if (code == 0x2103 || code == 0x2109) {  // ℃ ℉
    out += char32_t{0xB0};
    out += code == 0x2103 ? U'C' : U'F';
  } else if (code == 0xBA) {  // º, often written for °
    out += char32_t{0xB0};
  } else if (!IsInvisible(code)) {
    out += code;
  }
}

bool IsUniformSpace(char32_t code) { return code == ' ' || code == '\n' || code == kGroupSpace; }

}  // namespace

std::u32string UniformText(std::string_view raw) {
  std::u32string out;
  for (size_t i = 0; i < raw.size();) {
    const Utf8Character c = ReadUtf8(raw, i);
    AppendUniform(c.code, out);
    i += c.length;
  }
  size_t begin = 0;
  size_t end = out.size();
  while (begin < end && IsUniformSpace(out[begin])) ++begin;
  while (end > begin && IsUniformSpace(out[end - 1])) --end;
  return out.substr(begin, end - begin);
}

std::string Utf8Of(std::u32string_view text) {
  std::string out;
  for (const char32_t code : text) AppendUtf8(code, out);
  return out;
}

std::string FoldedText(std::string_view text) {
  std::string valid;
  AppendLossyUtf8(text, valid);
  const std::string parts = ToNormalForm(valid, NormalForm::kNfd);
  std::string out;
  for (size_t i = 0; i < parts.size();) {
    const Utf8Character c = ReadUtf8(parts, i);
    i += c.length;
    if (IsNonspacingMark(c.code) || IsInvisible(c.code)) continue;
    switch (c.code) {
      case 0xDF:
      case 0x1E9E:
        out += "ss";
        break;
      case 0x152:
      case 0x153:
        out += "oe";
        break;
      case 0xC6:
      case 0xE6:
        out += "ae";
        break;
      case 0x142:
      case 0x141:
        out += 'l';
        break;
      case 0x3BC:
        AppendUtf8(0xB5, out);
        break;
      default:
        AppendLowercase(c.code, out);
    }
  }
  return out;
}

std::vector<std::string> FoldedWords(std::string_view text) {
  const std::string folded = FoldedText(text);
  std::vector<std::string> words;
  bool inside = false;
  for (size_t i = 0; i < folded.size();) {
    const Utf8Character c = ReadUtf8(folded, i);
    const bool alone = IsCheckMark(c.code);
    if (alone || (IsWordCharacter(c.code) && c.code != '_')) {
      if (alone || !inside) words.emplace_back();
      words.back() += folded.substr(i, c.length);
      inside = !alone;
    } else {
      inside = false;
    }
    i += c.length;
  }
  // isn't, don't, can't: the apostrophe cut them in two.
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "t" && words[i - 1].ends_with('n')) words[i - 1] = words[i] = "not";
  }
  words.erase(std::unique(words.begin(), words.end(),
                          [](const auto& a, const auto& b) { return a == "not" && b == "not"; }),
              words.end());
  return words;
}

std::string PlainText(std::string_view raw) {
  std::string out;
  bool space = false;
  for (size_t i = 0; i < raw.size();) {
    const Utf8Character c = ReadUtf8(raw, i);
    i += c.length;
    if (IsWhitespace(c.code)) {
      space = true;
      continue;
    }
    if (space && !out.empty()) out += ' ';
    space = false;
    AppendUtf8(c.code, out);
  }
  return out;
}

std::string QuotedMention(std::string_view raw) {
  constexpr size_t kShown = 60;  // characters
  // A character has at most four bytes; more of a long mention is not needed.
  const bool cut_bytes = raw.size() > kMaxMentionBytes;
  const std::string text = PlainText(raw.substr(0, kMaxMentionBytes));
  size_t end = 0;
  size_t characters = 0;
  while (end < text.size() && characters < kShown) {
    end += ReadUtf8(text, end).length;
    ++characters;
  }
  const bool cut = cut_bytes || end < text.size();
  return "'" + Visible(text.substr(0, end)) + (cut ? "…'" : "'");
}

bool ListHasWord(std::string_view list, std::string_view word) {
  if (word.empty() || word.find(' ') != std::string_view::npos) return false;
  for (size_t at = list.find(word); at != std::string_view::npos; at = list.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || list[at - 1] == ' ') && (end == list.size() || list[end] == ' ')) return true;
  }
  return false;
}

bool IsNegation(std::string_view folded_word) {
  return ListHasWord(
      "no not non never neither nor without cannot cant isnt arent dont doesnt nicht kein keine "
      "keinen keiner keines keinem ohne nie niemals weder ausser pas sans aucun aucune ni jamais "
      "except sauf",
      folded_word);
}

}  // namespace banyan
