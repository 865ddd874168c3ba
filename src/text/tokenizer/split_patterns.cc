// Hand-written splitters for the known patterns, then the table of GGUF names.
#include "text/tokenizer/split_patterns.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>

namespace banyan {

namespace {

// The first place at or after `at` whose character has none of `classes`.
const char* Skip(const char* at, const char* end, CharacterClass classes) {
  while (at < end) {
    const ClassifiedCharacter c = ClassifyUtf8(at);
    if ((c.classes & classes) == 0) break;
    at += c.length;
  }
  return at;
}

// Length of 's, 't, 'm, 'd, 're, 've or 'll at `at`, which is an apostrophe; 0: none.
size_t ContractionLength(const char* at, const char* end, bool any_case) {
  const auto letter = [&](std::ptrdiff_t i) {
    if (end - at <= i) return '\0';
    const bool upper = at[i] >= 'A' && at[i] <= 'Z';
    return any_case && upper ? static_cast<char>(at[i] - 'A' + 'a') : at[i];
  };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return letter(2) == 'e' ? 3 : 0;
    case 'l':
      return letter(2) == 'l' ? 3 : 0;
    case '\xC5':  // U+017F, the long s, is an s in another case
      return any_case && letter(2) == '\xBF' ? 3 : 0;
    default:
      return 0;
  }
}

// White space from `at`, by \s+(?!\S)|\s+: all of it at the end of the text, else all but the last
// character, which belongs to what follows, unless it is the only one. With `lines`, \s*[\r\n]+
// takes precedence: up to the last line end.
const char* EndOfSpace(const char* at, const char* end, bool lines) {
  const char* last = at;
  const char* after_line = nullptr;
  const char* next = at;
  while (next < end) {
    const ClassifiedCharacter c = ClassifyUtf8(next);
    if ((c.classes & kSpaceClasses) == 0) break;
    last = next;
    next += c.length;
    if ((c.classes & kNewlineClass) != 0) after_line = next;
  }
  if (lines && after_line != nullptr) return after_line;
  return next == end || last == at ? next : last;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
const char* EndOfGpt2Word(const char* at, const char* end) {
  if (*at == '\'') {
    if (const size_t length = ContractionLength(at, end, false)) return at + length;
  }
  const char* body = *at == ' ' && end - at > 1 ? at + 1 : at;
  const ClassifiedCharacter first = ClassifyUtf8(body);
  const CharacterClass kind = first.classes & (kLetterClass | kNumberClass | kOtherClass);
  if (kind != 0) return Skip(body + first.length, end, kind);
  return EndOfSpace(at, end, false);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,N}| ?[^\s\p{L}\p{N}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
const char* EndOfLlamaWord(const char* at, const char* end, int most_digits) {
  const ClassifiedCharacter first = ClassifyUtf8(at);
  const char* next = at + first.length;
  if ((first.classes & kLetterClass) != 0) return Skip(next, end, kLetterClass);
  if (*at == '\'') {
    if (const size_t length = ContractionLength(at, end, true)) return at + length;
  }
  if ((first.classes & kNumberClass) != 0) {
    for (int digits = 1; digits < most_digits && next < end; ++digits) {
      const ClassifiedCharacter c = ClassifyUtf8(next);
      if ((c.classes & kNumberClass) == 0) break;
      next += c.length;
    }
    return next;
  }
  if (next < end && (first.classes & kNewlineClass) == 0) {
    const ClassifiedCharacter second = ClassifyUtf8(next);
    if ((second.classes & kLetterClass) != 0) return Skip(next + second.length, end, kLetterClass);
    if (*at == ' ' && (second.classes & kOtherClass) != 0) {
      return Skip(Skip(next + second.length, end, kOtherClass), end, kNewlineClass);
    }
  }
  if ((first.classes & kOtherClass) != 0) {
    return Skip(Skip(next, end, kOtherClass), end, kNewlineClass);
  }
  return EndOfSpace(at, end, true);
}

// Removes a first step that splits around every number from the chain; returns which characters it
// isolates, 0: none.
CharacterClass RemoveAlone(std::span<const KnownStep>& chain) {
  if (chain.empty()) return 0;
  const CharacterClass alone = chain.front() == KnownStep::kNumbersAlone    ? kNumberClass
                               : chain.front() == KnownStep::kNumericsAlone ? kNumericClass
                                                                            : 0;
  if (alone != 0) chain = chain.subspan(1);
  return alone;
}

}  // namespace

KnownStep KnownPattern(std::string_view pattern) {
  static constexpr std::array<std::pair<std::string_view, KnownStep>, 7> known = {
      {{R"(\p{N})", KnownStep::kNumbersAlone},
       {kGpt2Pattern, KnownStep::kGpt2},
       {kLlama3Pattern, KnownStep::kLlama3},
       {kQwen2Pattern, KnownStep::kQwen2},
       {kQwen35Pattern, KnownStep::kOtherWords},
       {kTekkenPattern, KnownStep::kOtherWords},
       {kGpt4oPattern, KnownStep::kOtherWords}}};
  for (const auto& [text, step] : known) {
    if (text == pattern) return step;
  }
  return KnownStep::kUnknown;
}

// No pattern looks back, and no alternative continues from a letter to a space: a word ends there
// and a new one begins, whatever the context.
bool AllowsCutsBeforeWords(std::span<const KnownStep> chain) {
  using enum KnownStep;
  const auto is = [&](std::initializer_list<KnownStep> steps) {
    return std::ranges::equal(chain, steps);
  };
  if (is({kMetaspaceCuts}) || is({kMetaspaceWords}) || is({kMetaspaceWords, kMetaspaceCuts}) ||
      is({kMetaspace, kMetaspaceCuts})) {
    return true;
  }
  RemoveAlone(chain);
  return is({kGpt2ByteLevel}) || is({kGpt2, kByteLevel}) || is({kLlama3, kByteLevel}) ||
         is({kQwen2, kByteLevel}) || is({kOtherWords, kByteLevel});
}

std::optional<WordSplitter> WordSplitter::For(std::span<const KnownStep> chain) {
  const CharacterClass alone = RemoveAlone(chain);
  if (chain.size() == 1 && chain[0] == KnownStep::kGpt2ByteLevel) {
    return WordSplitter(KnownStep::kGpt2, alone);
  }
  if (chain.size() != 2 || chain[1] != KnownStep::kByteLevel) return std::nullopt;
  const KnownStep pattern = chain[0];
  if (pattern != KnownStep::kGpt2 && pattern != KnownStep::kLlama3 &&
      pattern != KnownStep::kQwen2) {
    return std::nullopt;
  }
  return WordSplitter(pattern, alone);
}

const char* WordSplitter::FindAlone(const char* at, const char* end) const {
  while (at < end) {
    const ClassifiedCharacter c = ClassifyUtf8(at);
    if ((c.classes & alone_) != 0) break;
    at += c.length;
  }
  return at;
}

const char* WordSplitter::EndOfWord(const char* at, const char* end) const {
  switch (pattern_) {
    case KnownStep::kLlama3:
      return EndOfLlamaWord(at, end, 3);
    case KnownStep::kQwen2:
      return EndOfLlamaWord(at, end, 1);
    default:
      return EndOfGpt2Word(at, end);
  }
}

namespace {

// Patterns as the models' own tokenizer.json files state them.
constexpr const char* kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kDeepSeekV3Words =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kDeepSeekLetters =
    R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)";
constexpr const char* kBloom = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
constexpr const char* kDefaultPunctuation = R"([\p{P}\$\+<=>\^~\|]+)";
constexpr const char* kFalconPunctuation = R"([\p{P}\$\+<=>\^~\|`]+)";
constexpr const char* kThreeDigits = "[0-9][0-9][0-9]";
constexpr const char* kDigit = R"(\p{N})";

std::map<std::string, GgufPreTokenizer, std::less<>> MakeTable() {
  std::map<std::string, GgufPreTokenizer, std::less<>> table;
  const auto add = [&](std::initializer_list<const char*> names, const GgufPreTokenizer& entry) {
    for (const char* name : names) table[name] = entry;
  };
  add({"default"}, {{kDefaultPunctuation, kGpt2Pattern, R"(\p{N}+)", kThreeDigits}});
  add({"gpt-2", "phi-2", "jina-es", "jina-de", "jina-v1-en", "jina-v2-es", "jina-v2-de",
       "jina-v2-code", "roberta-bpe", "modern-bert", "gigachat", "a.x-4.0", "mellum", "exaone4",
       "jais", "trillion", "granite-docling"},
      {{kGpt2Pattern}});
  add({"mpt", "olmo"}, {.patterns = {kGpt2Pattern}, .nfc = true});
  add({"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
      {.patterns = {kLlama3Pattern}, .ignore_merges = true, .add_bos = true});
  add({"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"}, {{kLlama3Pattern}});
  add({"qwen2", "deepseek-r1-qwen", "megrez"}, {.patterns = {kQwen2Pattern}, .nfc = true});
  add({"stablelm2", "hunyuan", "solar-open", "grok-2", "kormo", "f2llmv2"}, {{kQwen2Pattern}});
  add({"qwen35"}, {.patterns = {kQwen35Pattern}, .nfc = true});
  add({"tekken"}, {.patterns = {kTekkenPattern}, .ignore_merges = true, .add_bos = true});
  add({"gpt-4o", "llama4", "kanana2", "minimax-m2"}, {{kGpt4oPattern}});
  add({"tiny_aya", "cohere2moe"}, {{R"(\d{1,3}(?=(?:\d{3})*\b))", kGpt4oPattern}});
  add({"starcoder", "refact", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
      {{kDigit, kGpt2Pattern}});
  add({"command-r"}, {.patterns = {kDigit, kGpt2Pattern}, .nfc = true});
  add({"falcon"}, {{kFalconPunctuation, kGpt2Pattern, kThreeDigits}});
  add({"deepseek-llm"}, {{"[\r\n]", kDeepSeekLetters, R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)",
                          R"(\s+$)", "[一-龥ࠀ-一가-퟿]+", R"(\p{N}+)"}});
  add({"deepseek-coder"},
      {{"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", "[一-龥ࠀ-一가-퟿]+", kDigit}});
  add({"deepseek-v3", "hunyuan-dense", "joyai-llm"},
      {{R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+", kDeepSeekV3Words}});
  add({"poro-chat", "bloom", "gpt3-finnish"}, {{kBloom}});
  add({"viking"}, {{kBloom, kDigit}});
  add({"superbpe"}, {{R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"}});
  add({"bailingmoe", "bailingmoe2", "llada-moe"}, {{kBailing}});
  add({"seed-coder"}, {{kSeedCoder}});
  return table;
}

}  // namespace

const GgufPreTokenizer* FindGgufPreTokenizer(std::string_view name) {
  static const auto table = MakeTable();
  const auto it = table.find(name);
  return it == table.end() ? nullptr : &it->second;
}

}  // namespace banyan
