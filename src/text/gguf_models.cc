// The four tokenizer models of GGUF, each with the stages around it.
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <utility>

#include "base/error.h"
#include "text/bpe_model.h"
#include "text/gguf_pre.h"
#include "text/tokenizer_gguf.h"
#include "text/unigram_model.h"
#include "text/wordpiece_model.h"

namespace banyan {
namespace {

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

void BuildByteLevelBpe(const GgufFile& file, const GgufTokens& tokens, TokenizerParts& parts) {
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

  const auto list = file.FindStringArray(GgufKey("merges"));
  if (!list) {
    Throw(ErrorKind::kFormat, "{}: {} is missing", file.path(), GgufKey("merges"));
  }
  Vocabulary vocabulary = MakeVocabulary(tokens, file.path());
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
    if (!left || !right || !result) continue;  // cut vocabularies keep all merges
    if (merges.Find(*left, *right).rank == MergeTable::kNone) {
      merges.Set(*left, *right, {this_rank, *result});
    }
  }
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

void BuildSentencePieceBpe(const GgufFile& file, const GgufTokens& tokens, TokenizerParts& parts) {
  if (tokens.scores.empty()) {
    Throw(ErrorKind::kFormat, "{}: {} is missing", file.path(), GgufKey("scores"));
  }
  const bool add_prefix = file.FindBool(GgufKey("add_space_prefix")).value_or(true);
  if (add_prefix) {
    parts.normalizer.Add(PrependStep(std::string(kMetaspace)), Normalizer::Effect::kPrepend);
  }
  parts.normalizer.Add(ReplaceStringStep(" ", std::string(kMetaspace)),
                       Normalizer::Effect::kReplaceSpaces);
  AddMetaspaceDecoder(add_prefix, parts);
  Vocabulary vocabulary = MakeVocabulary(tokens, file.path());
  const TokenSet excluded =
      IdsOfTypes(tokens, {GgufTokenType::kControl, GgufTokenType::kUnknown, GgufTokenType::kByte});
  MergeTable merges = MergesFromScores(vocabulary, tokens.scores, excluded);
  BpeOptions options;
  options.byte_fallback = true;
  options.fuse_unk = true;
  options.unk = parts.unk;
  parts.kind = "SentencePiece BPE";
  parts.pre_name = file.FindString(GgufKey("pre")).value_or("default");
  auto bpe =
      std::make_unique<BpeModel>(std::move(vocabulary), std::move(merges), std::move(options));
  if (bpe->CanCutAtMetaspace()) {
    parts.pretokenizer.Add(CutAtMetaspaceStep(), KnownStep::kMetaspaceCuts);
  }
  parts.model = std::move(bpe);
}

void BuildUnigram(const GgufFile& file, const GgufTokens& tokens, TokenizerParts& parts) {
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
                                     UnigramOptions{parts.unk, false}, unmatched);
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

void BuildWordPiece(const GgufFile& file, GgufTokens& tokens, TokenizerParts& parts) {
  RespellWordPieces(tokens);
  if (!parts.unk) {
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
  options.unk = *parts.unk;
  parts.model = std::make_unique<WordPieceModel>(MakeVocabulary(tokens, file.path()), options);
}

}  // namespace

void BuildGgufModel(const GgufFile& file, const std::string& model, GgufTokens& tokens,
                    TokenizerParts& parts) {
  if (model == "gpt2") {
    BuildByteLevelBpe(file, tokens, parts);
  } else if (model == "llama") {
    BuildSentencePieceBpe(file, tokens, parts);
  } else if (model == "bert") {
    BuildWordPiece(file, tokens, parts);
  } else if (model == "t5") {
    BuildUnigram(file, tokens, parts);
  } else {
    Throw(ErrorKind::kUnsupported,
          "{}: {}: tokenizer '{}' is not supported (gpt2, llama, bert, t5)", file.path(),
          GgufKey("model"), model.substr(0, 64));
  }
}

}  // namespace banyan
