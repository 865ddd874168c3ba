// Added tokens are registered, end tokens completed.
#include "text/tokenizer/tokenizer.h"

#include <algorithm>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/work_budget.h"
#include "formats/gguf.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/tokenizer_parts.h"
#include "text/tokenizer/vocabulary.h"
#include "text/tokenizer/word_encoder.h"
#include "text/unicode.h"

namespace banyan {

void TokenizerParts::SetAddedTokens(const std::vector<AddedToken>& tokens) {
  std::vector<AddedToken> raw, normalized;
  std::vector<std::string> raw_contents, normalized_contents;
  // Of two added tokens with the same content, the special one wins.
  for (const bool special_pass : {true, false}) {
    for (const AddedToken& token : tokens) {
      if (token.special != special_pass) continue;
      if (token.normalized) {
        std::string content = token.content;
        normalizer.Apply(content);
        normalized.push_back(token);
        normalized_contents.push_back(std::move(content));
      } else {
        raw.push_back(token);
        raw_contents.push_back(token.content);
      }
    }
  }
  for (const AddedToken& token : tokens) {
    added_vocabulary.Add(token.id, token.content, source);
    if (token.special) special.Insert(token.id);
    if (token.IsControl()) control.Insert(token.id);
  }
  raw_matcher = AddedTokenMatcher(std::move(raw), std::move(raw_contents), source);
  normalized_matcher =
      AddedTokenMatcher(std::move(normalized), std::move(normalized_contents), source);
}

void TokenizerParts::FindEndIds() {
  for (const char* name :
       {"<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>",
        "<end_of_turn>", "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"}) {
    const std::optional<TokenId> id = added_vocabulary.Find(name);
    if (id && special.Contains(*id)) specials.end_ids.push_back(*id);
  }
  std::sort(specials.end_ids.begin(), specials.end_ids.end());
  specials.end_ids.erase(std::unique(specials.end_ids.begin(), specials.end_ids.end()),
                         specials.end_ids.end());
}

std::optional<TokenId> TokenizerParts::Find(std::string_view token) const {
  const std::optional<TokenId> added = added_vocabulary.Find(token);
  return added ? added : model->vocabulary().Find(token);
}

std::string_view TokenizerParts::Text(TokenId id) const {
  return added_vocabulary.Has(id) ? added_vocabulary.Text(id) : model->vocabulary().Text(id);
}

size_t TokenizerParts::vocab_size() const {
  return std::max(added_vocabulary.size(), model->vocabulary().size());
}

// The pipeline in order: Encode and Decode of any tokenizer, whatever file it came from.

namespace {

// What precedes a fragment: nothing, an added token, or the first part of a text that was cut.
enum class Before { kNothing, kAddedToken, kItsBeginning };

void EncodeFragment(const TokenizerParts& parts, std::string_view text, Before before,
                    bool parse_special, std::vector<TokenId>& out) {
  std::string normalized;
  if (!parts.normalizer.Keeps(text)) {
    normalized = text;
    parts.normalizer.Apply(normalized, before == Before::kItsBeginning);
    text = normalized;
  }
  if (text.empty()) return;
  WordEncoder encoder({*parts.model, parse_special ? nullptr : &parts.control,
                       parse_special ? parts.cache_owner : parts.plain_cache_owner},
                      out);
  const auto encode = [&](TextRange range) {
    const std::string_view run = text.substr(range.begin, range.end - range.begin);
    if (const WordSplitter* words = parts.pretokenizer.words()) {
      encoder.EncodeBytes(run, *words);
      return;
    }
    PreTokenized input;
    input.text = run;
    input.pieces = {{0, run.size()}};
    input.at_start = before == Before::kNothing && range.begin == 0;
    parts.pretokenizer.Apply(input);
    encoder.Encode(input);
  };
  if (parts.normalized_matcher.empty()) return encode({0, text.size()});
  std::vector<AddedTokenMatcher::Fragment> fragments;
  parts.normalized_matcher.Split(text, parse_special, fragments);
  for (const AddedTokenMatcher::Fragment& fragment : fragments) {
    if (fragment.id >= 0) {
      out.push_back(fragment.id);
    } else {
      encode(fragment.range);
    }
  }
}

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::FromHuggingFace(const std::filesystem::path& path) {
  return std::make_shared<const Tokenizer>(ReadTokenizerJson(path));
}

std::shared_ptr<const Tokenizer> Tokenizer::FromHuggingFaceText(std::string_view tokenizer_json,
                                                                std::string_view config_json,
                                                                const std::string& what) {
  return std::make_shared<const Tokenizer>(
      ReadTokenizerJsonText(tokenizer_json, config_json, what));
}

std::shared_ptr<const Tokenizer> Tokenizer::FromGguf(const GgufFile& file) {
  return std::make_shared<const Tokenizer>(ReadTokenizerGguf(file.metadata()));
}

std::shared_ptr<const Tokenizer> Tokenizer::Load(const std::filesystem::path& path) {
  std::error_code unreadable;  // the readers below report it
  if (std::filesystem::is_directory(path, unreadable)) return FromHuggingFace(path);
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof(magic));
  if (std::string_view(magic, 4) == "GGUF") return FromGguf(GgufFile(path));
  return FromHuggingFace(path);
}

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {
  BANYAN_CHECK(parts_ != nullptr && parts_->model != nullptr);
}

Tokenizer::~Tokenizer() = default;

std::vector<TokenId> Tokenizer::Encode(std::string_view text, EncodeOptions options) const {
  std::string repaired;
  if (!IsValidUtf8(text)) {
    AppendLossyUtf8(text, repaired);
    text = repaired;
  }
  std::vector<TokenId> out;
  if (options.add_special) out = parts_->before;
  std::vector<AddedTokenMatcher::Fragment> fragments;
  parts_->raw_matcher.Split(text, options.parse_special, fragments);
  for (const AddedTokenMatcher::Fragment& fragment : fragments) {
    if (fragment.id >= 0) {
      out.push_back(fragment.id);
      continue;
    }
    const TextRange range = fragment.range;
    EncodeFragment(*parts_, text.substr(range.begin, range.end - range.begin),
                   range.begin == 0 ? Before::kNothing : Before::kAddedToken, options.parse_special,
                   out);
  }
  if (options.add_special) out.insert(out.end(), parts_->after.begin(), parts_->after.end());
  return out;
}

namespace {

void AppendPieces(const TokenizerParts& parts, std::span<const Tokenizer::Piece> pieces,
                  Before before, std::vector<TokenId>& out) {
  // A template may name a long document many times.
  constexpr size_t kMuch = 1 << 20;
  size_t bytes = 0;
  for (const Tokenizer::Piece& piece : pieces) bytes += piece.text.size();
  if (bytes > kMuch) ChargeBudget(bytes);
  std::string text;
  std::vector<TextRange> plain;
  for (const Tokenizer::Piece& piece : pieces) {
    CheckBudget();
    const size_t begin = text.size();
    AppendLossyUtf8(piece.text, text);
    if (!piece.plain || text.size() == begin) continue;
    if (!plain.empty() && plain.back().end == begin) {
      plain.back().end = text.size();
    } else {
      plain.push_back({begin, text.size()});
    }
  }
  std::vector<AddedTokenMatcher::Fragment> fragments;
  parts.raw_matcher.Split(text, plain, fragments);
  constexpr size_t kFragmentsBetweenLooks = 1 << 8;
  size_t fragments_done = 0;
  for (const AddedTokenMatcher::Fragment& fragment : fragments) {
    if (fragment.id >= 0) {
      out.push_back(fragment.id);
      continue;
    }
    // Normalisation loses the positions of user text, so a fragment with user text gets no control
    // token from the normalised matcher.
    const TextRange range = fragment.range;
    const auto user = std::ranges::partition_point(
        plain, [&](const TextRange& before) { return before.end <= range.begin; });
    const bool has_plain = user != plain.end() && user->begin < range.end;
    if (++fragments_done % kFragmentsBetweenLooks == 0) CheckBudget();
    EncodeFragment(parts, std::string_view(text).substr(range.begin, range.end - range.begin),
                   range.begin == 0 ? before : Before::kAddedToken, !has_plain, out);
  }
}

}  // namespace

std::vector<TokenId> Tokenizer::EncodePieces(std::span<const Piece> pieces,
                                             bool add_special) const {
  std::vector<TokenId> out;
  if (add_special) out = parts_->before;
  AppendPieces(*parts_, pieces, Before::kNothing, out);
  if (add_special) out.insert(out.end(), parts_->after.begin(), parts_->after.end());
  return out;
}

std::vector<TokenId> Tokenizer::EncodeRest(std::span<const Piece> pieces) const {
  std::vector<TokenId> out;
  AppendPieces(*parts_, pieces, Before::kItsBeginning, out);
  return out;
}

bool Tokenizer::AllowsCutsBeforeWords() const {
  return parts_->pretokenizer.AllowsCutsBeforeWords() &&
         parts_->normalizer.AllowsCutsBeforeSpaces() &&
         parts_->raw_matcher.AllowsCutsBeforeWords() &&
         parts_->normalized_matcher.AllowsCutsBeforeWords();
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, bool skip_special) const {
  const auto count = static_cast<TokenId>(vocab_size());
  const auto for_each_token = [&](auto take) {
    for (const TokenId id : ids) {
      if (id < 0 || id >= count) {
        Throw(ErrorKind::kInput, "token id {} is outside the vocabulary of {}", id, count);
      }
      if (skip_special && IsSpecial(id)) continue;
      const std::string_view token = TokenText(id);
      if (!token.empty()) take(token);
    }
  };
  std::string text;
  if (parts_->decoder.only_byte_level()) {
    std::string bytes;
    bytes.reserve(ids.size() * 4);
    for_each_token([&](std::string_view token) {
      if (!AppendFromByteLevel(token, bytes)) bytes += token;
    });
    if (IsValidUtf8(bytes)) return bytes;
    AppendLossyUtf8(bytes, text);
    return text;
  }
  DecoderChain chain(parts_->decoder);
  for_each_token([&](std::string_view token) { text += chain.Push(std::string(token)); });
  return text + chain.Finish();
}

size_t Tokenizer::vocab_size() const { return parts_->vocab_size(); }
bool Tokenizer::IsSpecial(TokenId id) const { return parts_->special.Contains(id); }
bool Tokenizer::IsAdded(TokenId id) const {
  return parts_->added_vocabulary.Has(id) || parts_->unused.Contains(id);
}
std::optional<TokenId> Tokenizer::Find(std::string_view token) const { return parts_->Find(token); }
std::string_view Tokenizer::TokenText(TokenId id) const { return parts_->Text(id); }

std::string Tokenizer::TokenBytes(TokenId id) const {
  std::string text(TokenText(id));
  if (parts_->added_vocabulary.Has(id)) return text;
  switch (parts_->spelling) {
    case TokenSpelling::kByteLevel:
      return FromByteLevel(text).value_or(text);
    case TokenSpelling::kMetaspace:
      if (const int byte = ParseByteToken(text); byte >= 0) {
        return std::string(1, static_cast<char>(byte));
      }
      ReplaceAll(text, "\u2581", " ");
      return text;
    case TokenSpelling::kWordPiece:
      if (!parts_->continuing_prefix.empty()) {
        if (text.starts_with(parts_->continuing_prefix)) {
          return text.substr(parts_->continuing_prefix.size());
        }
        return " " + text;
      }
      ReplaceAll(text, "\u2581", " ");
      return text;
    case TokenSpelling::kPlain:
      return text;
  }
  return text;
}

const SpecialTokens& Tokenizer::special_tokens() const { return parts_->specials; }

namespace {

std::string TextOrNothing(const TokenizerParts& parts, std::optional<TokenId> id) {
  return id ? std::string(parts.Text(*id)) : std::string();
}

}  // namespace

std::string Tokenizer::bos_text() const { return TextOrNothing(*parts_, parts_->specials.bos); }
std::string Tokenizer::eos_text() const { return TextOrNothing(*parts_, parts_->specials.eos); }
const std::string& Tokenizer::model_kind() const { return parts_->kind; }
const std::string& Tokenizer::pre_name() const { return parts_->pre_name; }
const std::string& Tokenizer::chat_template() const { return parts_->chat_template; }

struct StreamDecoder::State {
  std::shared_ptr<const Tokenizer> tokenizer;
  bool skip_special;
  std::unique_ptr<DecoderChain> chain;
};

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : state_(std::make_unique<State>()) {
  BANYAN_CHECK(tokenizer != nullptr);
  state_->tokenizer = std::move(tokenizer);
  state_->skip_special = skip_special;
  state_->chain = std::make_unique<DecoderChain>(state_->tokenizer->parts_->decoder);
}

StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;

std::string StreamDecoder::Push(TokenId id) {
  const Tokenizer& tokenizer = *state_->tokenizer;
  if (state_->skip_special && tokenizer.IsSpecial(id)) return {};
  const std::string_view token = tokenizer.TokenText(id);
  return token.empty() ? std::string() : state_->chain->Push(std::string(token));
}

std::string StreamDecoder::Finish() {
  std::string rest = state_->chain->Finish();
  state_->chain = std::make_unique<DecoderChain>(state_->tokenizer->parts_->decoder);
  return rest;
}

}  // namespace banyan
