// A tokenizer from GGUF metadata: its special and added tokens around the model.
#include "text/tokenizer_gguf.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/error.h"
#include "text/gguf_pre.h"
#include "text/tokenizer.h"

namespace banyan {
namespace {

std::optional<TokenId> FindId(const GgufFile& file, std::string_view key, size_t vocab_size,
                              std::int64_t fallback) {
  const std::int64_t id = file.FindInt(GgufKey(key)).value_or(fallback);
  if (id < 0 || static_cast<size_t>(id) >= vocab_size) return std::nullopt;
  return static_cast<TokenId>(id);
}

bool NameContains(const GgufFile& file, std::initializer_list<std::string_view> words) {
  std::string name = file.FindString("general.name").value_or("");
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

// Token attributes that GGUF does not carry are known by the model's name.
void SetStripAttributes(bool is_phi3, const std::string& pre, AddedToken& token) {
  if (is_phi3) {
    token.rstrip =
        token.content != "<unk>" && token.content != "<s>" && token.content != "<|endoftext|>";
  }
  if (token.content == "<mask>" && pre.starts_with("jina-v2")) token.lstrip = true;
  if (token.content == "[MASK]" && pre == "modern-bert") token.lstrip = true;
}

void AddTokens(const GgufFile& file, const GgufTokens& tokens, TokenizerParts& parts) {
  std::vector<AddedToken> added;
  const bool is_phi3 = NameContains(file, {"phi-3", "phi3"});
  for (size_t i = 0; i < tokens.texts.size(); ++i) {
    const GgufTokenType type = tokens.types[i];
    if (tokens.texts[i].empty()) continue;
    if (type == GgufTokenType::kUnused) parts.unused.Insert(static_cast<TokenId>(i));
    const bool special = type == GgufTokenType::kControl || type == GgufTokenType::kUnknown;
    if (!special && type != GgufTokenType::kUserDefined) continue;
    AddedToken token;
    token.id = static_cast<TokenId>(i);
    token.content = tokens.texts[i];
    token.special = special;
    SetStripAttributes(is_phi3, parts.pre_name, token);
    added.push_back(std::move(token));
  }
  parts.SetAddedTokens(added);
}

struct SpecialDefaults {  // ids and flags that a model kind implies when its keys are absent
  std::int64_t bos = -1, eos = -1, unk = -1, sep = -1, pad = -1;
  bool add_bos = false, add_eos = false, add_sep = false;
};

SpecialDefaults DefaultsOf(const std::string& model) {
  if (model == "llama") return {.bos = 1, .eos = 2, .unk = 0, .add_bos = true};
  if (model == "bert") {
    return {.bos = 101, .unk = 100, .sep = 102, .pad = 0, .add_bos = true, .add_sep = true};
  }
  if (model == "t5") return {.eos = 1, .unk = 2, .pad = 0, .add_eos = true};
  return {};
}

void ReadSpecialIds(const GgufFile& file, const SpecialDefaults& defaults, size_t count,
                    TokenizerParts& parts) {
  parts.bos = FindId(file, "bos_token_id", count, defaults.bos);
  if (!file.Has(GgufKey("bos_token_id")) && file.Has(GgufKey("cls_token_id"))) {
    parts.bos = FindId(file, "cls_token_id", count, defaults.bos);
  }
  parts.eos = FindId(file, "eos_token_id", count, defaults.eos);
  parts.pad = FindId(file, "padding_token_id", count, defaults.pad);
  parts.unk = FindId(file, "unknown_token_id", count, defaults.unk);
}

void ReadAddedSpecials(const GgufFile& file, const SpecialDefaults& defaults, size_t count,
                       TokenizerParts& parts) {
  const auto flag = [&](std::string_view key, bool fallback) {
    return file.FindBool(GgufKey(key)).value_or(fallback);
  };
  const GgufPreTokenizer* pre = FindGgufPreTokenizer(parts.pre_name);
  const bool pre_adds_bos = parts.kind == "BPE" && pre != nullptr && pre->add_bos;
  // The format's own spelling of this key lacks an "a".
  const auto sep = FindId(file, "seperator_token_id", count, defaults.sep);
  if (flag("add_bos_token", defaults.add_bos || pre_adds_bos) && parts.bos) {
    parts.before.push_back(*parts.bos);
  }
  const bool add_sep = flag("add_sep_token", defaults.add_sep) && sep;
  if (add_sep) parts.after.push_back(*sep);
  if (!add_sep && flag("add_eos_token", defaults.add_eos) && parts.eos) {
    parts.after.push_back(*parts.eos);
  }
  for (const char* key : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    const auto id = FindId(file, key, count, -1);
    if (id) parts.end_ids.push_back(*id);
  }
  if (parts.eos) parts.end_ids.push_back(*parts.eos);
}

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::FromGguf(const GgufFile& file) {
  const auto model = file.FindString(GgufKey("model"));
  if (!model || *model == "none" || *model == "no_vocab") {
    Throw(ErrorKind::kFormat, "{}: the file has no tokenizer ({} is {})", file.path(),
          GgufKey("model"), model ? *model : "missing");
  }
  GgufTokens tokens = ReadGgufTokens(file);
  const size_t count = tokens.texts.size();
  const SpecialDefaults defaults = DefaultsOf(*model);
  auto parts = std::make_unique<TokenizerParts>();
  parts->source = file.path();
  ReadSpecialIds(file, defaults, count, *parts);
  BuildGgufModel(file, *model, tokens, *parts);
  AddTokens(file, tokens, *parts);
  ReadAddedSpecials(file, defaults, count, *parts);
  parts->FindEndIds();
  parts->chat_template = file.FindString("tokenizer.chat_template").value_or("");
  return std::make_shared<const Tokenizer>(std::move(parts));
}

}  // namespace banyan
