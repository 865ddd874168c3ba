// A tokenizer from GGUF metadata (tokenizer.ggml.*): the vocabulary as the file lists it, one of
// five models built from it with the stages around it, then special and added tokens.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/gguf.h"
#include "text/tokenizer/bpe_model.h"
#include "text/tokenizer/split_patterns.h"
#include "text/tokenizer/token_model.h"
#include "text/tokenizer/tokenizer_parts.h"
#include "text/unicode.h"

namespace banyan {
namespace {

enum class GgufTokenType : std::int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// The vocabulary as the file lists it, before any model is built from it.
struct GgufTokens {
  std::vector<std::string> texts;
  std::vector<GgufTokenType> types;
  std::vector<float> scores;  // empty when the file has none
};

std::string GgufKey(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

// Throws kFormat when there is no vocabulary, or when types or scores do not fit to it.
GgufTokens ReadGgufTokens(const GgufMetadata& file) {
  const auto texts = file.FindStringArray(GgufKey("tokens"));
  if (!texts || texts->empty()) {
    Throw(ErrorKind::kFormat, "{}: {} is missing: the file has no vocabulary", file.path(),
          GgufKey("tokens"));
  }
  GgufTokens tokens;
  const size_t count = texts->size();
  tokens.texts.reserve(count);
  for (const std::string_view text : *texts) {
    tokens.texts.emplace_back();
    AppendLossyUtf8(text, tokens.texts.back());
  }
  tokens.types.assign(count, GgufTokenType::kNormal);
  if (const auto types = file.FindIntArray(GgufKey("token_type"))) {
    if (types->size() < count) {
      Throw(ErrorKind::kFormat, "{}: {} has {} entries for {} tokens", file.path(),
            GgufKey("token_type"), types->size(), count);
    }
    for (size_t i = 0; i < count; ++i) tokens.types[i] = static_cast<GgufTokenType>((*types)[i]);
  }
  if (auto scores = file.FindFloatArray(GgufKey("scores"))) {
    if (scores->size() < count) {
      Throw(ErrorKind::kFormat, "{}: {} has {} entries for {} tokens", file.path(),
            GgufKey("scores"), scores->size(), count);
    }
    scores->resize(count);
    for (const float score : *scores) {
      if (!std::isfinite(score)) {
        Throw(ErrorKind::kFormat, "{}: {} has a value that is not finite", file.path(),
              GgufKey("scores"));
      }
    }
    tokens.scores = *std::move(scores);
  }
  return tokens;
}

constexpr std::string_view kMetaspace = "\u2581";

Vocabulary MakeVocabulary(const GgufTokens& tokens, const std::string& what) {
  Vocabulary vocabulary;
  for (size_t i = 0; i < tokens.texts.size(); ++i) {
    vocabulary.Add(static_cast<std::int64_t>(i), tokens.texts[i], what);
  }
  return vocabulary;
}

TokenSet IdsOfTypes(const GgufTokens& tokens, std::initializer_list<GgufTokenType> types) {
  TokenSet set;
  for (size_t i = 0; i < tokens.types.size(); ++i) {
    if (std::find(types.begin(), types.end(), tokens.types[i]) != types.end()) {
      set.Insert(static_cast<TokenId>(i));
    }
  }
  return set;
}

// Throws kFormat where there are none, or one is no pair.
MergeTable ReadMerges(const GgufMetadata& file, const Vocabulary& vocabulary) {
  const auto list = file.FindStringArray(GgufKey("merges"));
  if (!list) {
    Throw(ErrorKind::kFormat, "{}: {} is missing", file.path(), GgufKey("merges"));
  }
  MergeTable merges(list->size());
  std::string merged;
  std::uint32_t rank = 0;
  for (const std::string_view merge : *list) {
    const std::uint32_t this_rank = rank++;
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos) {
      Throw(ErrorKind::kFormat, "{}: {}[{}]: expected two tokens with a space between them",
            file.path(), GgufKey("merges"), this_rank);
    }
    merged = merge.substr(0, space);
    merged += merge.substr(space + 1);
    const auto left = vocabulary.Find(merge.substr(0, space));
    const auto right = vocabulary.Find(merge.substr(space + 1));
    const auto result = vocabulary.Find(merged);
    if (!left || !right || !result) continue;  // pruned vocabularies keep all merges
    if (merges.Find(*left, *right).rank == MergeTable::kNone) {
      merges.Set(*left, *right, {this_rank, *result});
    }
  }
  return merges;
}

void BuildByteLevelBpe(const GgufMetadata& file, const GgufTokens& tokens, TokenizerParts& parts) {
  parts.pre_name = file.FindString(GgufKey("pre")).value_or("default");
  const GgufPreTokenizer* pre = FindGgufPreTokenizer(parts.pre_name);
  if (pre == nullptr) {
    Throw(ErrorKind::kUnsupported, "{}: {}: unknown pre-tokenizer '{}'", file.path(),
          GgufKey("pre"), parts.pre_name.substr(0, 64));
  }
  if (pre->nfc) parts.normalizer.Add(NormalFormStep(NormalForm::kNfc), Normalizer::Effect::kNfc);
  for (const char* pattern : pre->patterns) {
    parts.pretokenizer.Add(SplitRegexStep(std::make_shared<const Regex>(pattern, parts.pre_name),
                                          SplitBehavior::kIsolated, false),
                           KnownPattern(pattern));
  }
  const bool add_prefix = file.FindBool(GgufKey("add_space_prefix")).value_or(false);
  parts.pretokenizer.Add(ByteLevelPreTokenizerStep(nullptr, add_prefix),
                         add_prefix ? KnownStep::kUnknown : KnownStep::kByteLevel);

  Vocabulary vocabulary = MakeVocabulary(tokens, file.path());
  MergeTable merges = ReadMerges(file, vocabulary);
  BpeOptions options;
  options.ignore_merges = pre->ignore_merges;
  parts.kind = "BPE";
  parts.spelling = TokenSpelling::kByteLevel;
  parts.decoder.AddByteLevel();
  parts.model =
      std::make_unique<BpeModel>(std::move(vocabulary), std::move(merges), std::move(options));
}

void AddMetaspaceDecoder(bool strip_first_space, TokenizerParts& parts) {
  parts.spelling = TokenSpelling::kMetaspace;
  parts.decoder.Add(ReplaceStringDecoderStep(std::string(kMetaspace), " ", false));
  parts.decoder.Add(ByteFallbackStep(false));
  parts.decoder.Add(FuseStep());
  if (strip_first_space) {
    parts.decoder.Add(StripDecoderStep({.content = ' ', .start = 1, .stop = 0}, true));
  }
}

// Adds the steps of a model whose tokens spell spaces so.
void AddMetaspaces(bool add_prefix, TokenizerParts& parts) {
  if (add_prefix) {
    parts.normalizer.Add(PrependStep(std::string(kMetaspace)), Normalizer::Effect::kPrepend);
  }
  parts.normalizer.Add(ReplaceStringStep(" ", std::string(kMetaspace)),
                       Normalizer::Effect::kReplaceSpaces);
  AddMetaspaceDecoder(add_prefix, parts);
}

// Makes the model: merges over the whole text, and bytes for what the vocabulary lacks.
void SetMetaspaceBpe(const GgufMetadata& file, Vocabulary vocabulary, MergeTable merges,
                     TokenizerParts& parts) {
  BpeOptions options;
  options.byte_fallback = true;
  options.fuse_unk = true;
  options.unk = parts.specials.unk;
  parts.kind = "SentencePiece BPE";
  parts.pre_name = file.FindString(GgufKey("pre")).value_or("default");
  auto bpe =
      std::make_unique<BpeModel>(std::move(vocabulary), std::move(merges), std::move(options));
  if (bpe->CanCutAtMetaspace()) {
    parts.pretokenizer.Add(CutAtMetaspaceStep(), KnownStep::kMetaspaceCuts);
  }
  parts.model = std::move(bpe);
}

void BuildSentencePieceBpe(const GgufMetadata& file, const GgufTokens& tokens,
                           TokenizerParts& parts) {
  if (tokens.scores.empty()) {
    Throw(ErrorKind::kFormat, "{}: {} is missing", file.path(), GgufKey("scores"));
  }
  AddMetaspaces(file.FindBool(GgufKey("add_space_prefix")).value_or(true), parts);
  Vocabulary vocabulary = MakeVocabulary(tokens, file.path());
  const TokenSet excluded =
      IdsOfTypes(tokens, {GgufTokenType::kControl, GgufTokenType::kUnknown, GgufTokenType::kByte});
  MergeTable merges = MergesFromScores(vocabulary, tokens.scores, excluded);
  SetMetaspaceBpe(file, std::move(vocabulary), std::move(merges), parts);
}

// Gemma 4: spelled as SentencePiece does, with merges as the file lists them.
void BuildMetaspaceBpe(const GgufMetadata& file, const GgufTokens& tokens, TokenizerParts& parts) {
  AddMetaspaces(file.FindBool(GgufKey("add_space_prefix")).value_or(false), parts);
  Vocabulary vocabulary = MakeVocabulary(tokens, file.path());
  MergeTable merges = ReadMerges(file, vocabulary);
  SetMetaspaceBpe(file, std::move(vocabulary), std::move(merges), parts);
}

void BuildUnigram(const GgufMetadata& file, const GgufTokens& tokens, TokenizerParts& parts) {
  if (tokens.scores.empty()) {
    Throw(ErrorKind::kFormat, "{}: {} is missing", file.path(), GgufKey("scores"));
  }
  std::shared_ptr<const Charsmap> charsmap;
  if (const auto bytes = file.FindIntArray(GgufKey("precompiled_charsmap"));
      bytes && !bytes->empty()) {
    std::string blob;
    blob.reserve(bytes->size());
    for (const std::int64_t byte : *bytes) blob.push_back(static_cast<char>(byte & 0xFF));
    charsmap = std::make_shared<const Charsmap>(
        blob, file.path() + ": " + GgufKey("precompiled_charsmap"));
  }
  SentencePieceSpaces spaces;
  spaces.add_prefix = file.FindBool(GgufKey("add_space_prefix")).value_or(false);
  spaces.merge_runs = file.FindBool(GgufKey("remove_extra_whitespaces")).value_or(false);
  parts.normalizer.Add(SentencePieceStep(std::move(charsmap), spaces));
  AddMetaspaceDecoder(spaces.add_prefix || spaces.merge_runs, parts);
  std::vector<double> scores(tokens.scores.begin(), tokens.scores.end());
  for (size_t i = 0; i < scores.size(); ++i) {
    if (tokens.types[i] == GgufTokenType::kUserDefined) scores[i] = 0;
  }
  const TokenSet unmatched =
      IdsOfTypes(tokens, {GgufTokenType::kControl, GgufTokenType::kUnknown, GgufTokenType::kByte});
  parts.kind = "Unigram";
  parts.pre_name = file.FindString(GgufKey("pre")).value_or("default");
  parts.model =
      std::make_unique<UnigramModel>(MakeVocabulary(tokens, file.path()), std::move(scores),
                                     UnigramOptions{parts.specials.unk, false}, unmatched);
}

// GGUF spells a word's start "▁x" and its continuation "x"; we go back to "x" and "##x".
void RespellWordPieces(GgufTokens& tokens) {
  for (size_t i = 0; i < tokens.texts.size(); ++i) {
    std::string& text = tokens.texts[i];
    if (text.starts_with(kMetaspace)) {
      text.erase(0, kMetaspace.size());
    } else if (tokens.types[i] == GgufTokenType::kNormal &&
               !(text.starts_with('[') && text.ends_with(']'))) {
      text.insert(0, "##");
    }
  }
}

void BuildWordPiece(const GgufMetadata& file, GgufTokens& tokens, TokenizerParts& parts) {
  RespellWordPieces(tokens);
  if (!parts.specials.unk) {
    Throw(ErrorKind::kFormat, "{}: {} is not in the vocabulary", file.path(),
          GgufKey("unknown_token_id"));
  }
  BertNormalizerOptions normalizer;
  normalizer.lowercase = file.FindBool(GgufKey("normalizer.lowercase")).value_or(true);
  normalizer.strip_accents =
      file.FindBool(GgufKey("normalizer.strip_accents")).value_or(normalizer.lowercase);
  parts.normalizer.Add(BertStep(normalizer));
  parts.pretokenizer.Add(BertPreTokenizerStep());
  parts.decoder.Add(WordPieceDecoderStep("##", true, false));
  parts.spelling = TokenSpelling::kWordPiece;
  parts.continuing_prefix = "##";
  parts.kind = "WordPiece";
  parts.pre_name = file.FindString(GgufKey("pre")).value_or("default");
  WordPieceOptions options;
  options.unk = *parts.specials.unk;
  parts.model = std::make_unique<WordPieceModel>(MakeVocabulary(tokens, file.path()), options);
}

// Fills the stages, model, kind and pre_name; parts.specials.unk has been read before. `model` is
// tokenizer.ggml.model: an unknown one is refused (kUnsupported). Word pieces are respelled in
// `tokens`.
void BuildGgufModel(const GgufMetadata& file, const std::string& model, GgufTokens& tokens,
                    TokenizerParts& parts) {
  if (model == "gpt2") {
    BuildByteLevelBpe(file, tokens, parts);
  } else if (model == "llama") {
    BuildSentencePieceBpe(file, tokens, parts);
  } else if (model == "gemma4") {
    BuildMetaspaceBpe(file, tokens, parts);
  } else if (model == "bert") {
    BuildWordPiece(file, tokens, parts);
  } else if (model == "t5") {
    BuildUnigram(file, tokens, parts);
  } else {
    Throw(ErrorKind::kUnsupported,
          "{}: {}: tokenizer '{}' is not supported (gpt2, llama, gemma4, bert, t5)", file.path(),
          GgufKey("model"), model.substr(0, 64));
  }
}

std::optional<TokenId> FindId(const GgufMetadata& file, std::string_view key, size_t vocab_size,
                              std::int64_t fallback) {
  const std::int64_t id = file.FindInt(GgufKey(key)).value_or(fallback);
  if (id < 0 || static_cast<size_t>(id) >= vocab_size) return std::nullopt;
  return static_cast<TokenId>(id);
}

bool NameContains(const GgufMetadata& file, std::initializer_list<std::string_view> words) {
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

void AddTokens(const GgufMetadata& file, const GgufTokens& tokens, TokenizerParts& parts) {
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
  std::int64_t bos = -1, eos = -1, unk = -1, sep = -1;
  bool add_bos = false, add_eos = false, add_sep = false;
};

SpecialDefaults DefaultsOf(const std::string& model) {
  if (model == "llama") return {.bos = 1, .eos = 2, .unk = 0, .add_bos = true};
  if (model == "bert") {
    return {.bos = 101, .unk = 100, .sep = 102, .add_bos = true, .add_sep = true};
  }
  if (model == "gemma4") return {.add_bos = true};
  if (model == "t5") return {.eos = 1, .unk = 2, .add_eos = true};
  return {};
}

void ReadSpecialIds(const GgufMetadata& file, const SpecialDefaults& defaults, size_t count,
                    TokenizerParts& parts) {
  parts.specials.bos = FindId(file, "bos_token_id", count, defaults.bos);
  if (!file.Has(GgufKey("bos_token_id")) && file.Has(GgufKey("cls_token_id"))) {
    parts.specials.bos = FindId(file, "cls_token_id", count, defaults.bos);
  }
  parts.specials.eos = FindId(file, "eos_token_id", count, defaults.eos);
  parts.specials.unk = FindId(file, "unknown_token_id", count, defaults.unk);
}

void ReadAddedSpecials(const GgufMetadata& file, const SpecialDefaults& defaults, size_t count,
                       TokenizerParts& parts) {
  const auto flag = [&](std::string_view key, bool fallback) {
    return file.FindBool(GgufKey(key)).value_or(fallback);
  };
  const GgufPreTokenizer* pre = FindGgufPreTokenizer(parts.pre_name);
  const bool pre_adds_bos = parts.kind == "BPE" && pre != nullptr && pre->add_bos;
  // The format's own spelling of this key lacks an "a".
  const auto sep = FindId(file, "seperator_token_id", count, defaults.sep);
  if (flag("add_bos_token", defaults.add_bos || pre_adds_bos) && parts.specials.bos) {
    parts.before.push_back(*parts.specials.bos);
  }
  const bool add_sep = flag("add_sep_token", defaults.add_sep) && sep;
  if (add_sep) parts.after.push_back(*sep);
  if (!add_sep && flag("add_eos_token", defaults.add_eos) && parts.specials.eos) {
    parts.after.push_back(*parts.specials.eos);
  }
  for (const char* key : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    const auto id = FindId(file, key, count, -1);
    if (id) parts.specials.end_ids.push_back(*id);
  }
  if (parts.specials.eos) parts.specials.end_ids.push_back(*parts.specials.eos);
}

}  // namespace

std::unique_ptr<TokenizerParts> ReadTokenizerGguf(const GgufMetadata& file) {
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
  return parts;
}

}  // namespace banyan
