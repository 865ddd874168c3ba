#include "text/gguf_pre.h"

#include <map>
#include <string>

#include "text/word_splitter.h"

namespace banyan {
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
