// A tokenizer from Hugging Face files: the model section of tokenizer.json (vocabulary, merges,
// scores), added tokens, and tokenizer_config.json. The stages are in json_sections.cc.
#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "text/tokenizer/bpe_model.h"
#include "text/tokenizer/json_sections.h"
#include "text/tokenizer/token_model.h"
#include "text/tokenizer/tokenizer_parts.h"

namespace banyan {
namespace {

// {"token": id, …}
Vocabulary ReadVocabularyObject(const JsonNode& node) {
  if (!node.value().is_object()) node.Expected("an object of token → id");
  if (node.value().empty()) node.Expected("a vocabulary with at least one token");
  Vocabulary vocabulary;
  for (const auto& [token, id] : node.value().items()) {
    const JsonNode entry(id, node.place());
    vocabulary.Add(entry.Integer(), token, node.place());
  }
  return vocabulary;
}

TokenId FindOrThrow(const Vocabulary& vocabulary, std::string_view token, const JsonNode& node,
                    size_t index) {
  const std::optional<TokenId> id = vocabulary.Find(token);
  if (!id) {
    Throw(ErrorKind::kFormat, "{}[{}]: '{}' is not in model.vocab", node.place(), index,
          token.substr(0, 64));
  }
  return *id;
}

// ["a b", …] or [["a", "b"], …]; the place in the list is the rank.
MergeTable ReadMerges(const JsonNode& node, const Vocabulary& vocabulary,
                      const std::string& continuing_prefix) {
  const Json& list = node.value();
  if (!list.is_array()) node.Expected("an array");
  MergeTable merges(list.size());
  std::string merged;
  std::uint32_t rank = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& entry = list[i];
    std::string_view left, right;
    if (entry.is_string()) {
      const std::string_view text = entry.get_ref<const std::string&>();
      if (text.starts_with("#version")) continue;
      const size_t space = text.find(' ');
      if (space == std::string_view::npos || text.find(' ', space + 1) != text.npos) {
        node.At(i).Expected("two tokens with one space between them");
      }
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
               entry[1].is_string()) {
      left = entry[0].get_ref<const std::string&>();
      right = entry[1].get_ref<const std::string&>();
    } else {
      node.At(i).Expected("\"a b\" or [\"a\", \"b\"]");
    }
    const TokenId left_id = FindOrThrow(vocabulary, left, node, i);
    const TokenId right_id = FindOrThrow(vocabulary, right, node, i);
    merged = left;
    merged += right.size() >= continuing_prefix.size() ? right.substr(continuing_prefix.size())
                                                       : std::string_view();
    merges.Set(left_id, right_id, {rank++, FindOrThrow(vocabulary, merged, node, i)});
  }
  return merges;
}

void ReadBpe(const JsonNode& node, TokenizerParts& parts) {
  Vocabulary vocabulary = ReadVocabularyObject(node.Get("vocab"));
  BpeOptions options;
  options.fuse_unk = node.BoolOr("fuse_unk", false);
  options.byte_fallback = node.BoolOr("byte_fallback", false);
  options.ignore_merges = node.BoolOr("ignore_merges", false);
  options.continuing_prefix = node.StringOr("continuing_subword_prefix", "");
  options.word_suffix = node.StringOr("end_of_word_suffix", "");
  if (const auto unk = node.Find("unk_token")) {
    options.unk = vocabulary.Find(unk->String());
    // Some files name an unknown token that is only an added one; it is never produced.
    parts.specials.unk = options.unk;
  }
  MergeTable merges = ReadMerges(node.Get("merges"), vocabulary, options.continuing_prefix);
  parts.kind = options.byte_fallback ? "SentencePiece BPE" : "BPE";
  auto model = std::make_unique<BpeModel>(std::move(vocabulary), std::move(merges), options);
  parts.cut_at_metaspace = model->CanCutAtMetaspace();
  parts.model = std::move(model);
}

void ReadUnigram(const JsonNode& node, TokenizerParts& parts) {
  const JsonNode list = node.Get("vocab");
  if (!list.value().is_array()) list.Expected("an array of [token, score]");
  if (list.value().empty()) list.Expected("a vocabulary with at least one token");
  Vocabulary vocabulary;
  std::vector<double> scores;
  for (size_t i = 0; i < list.value().size(); ++i) {
    const Json& entry = list.value()[i];
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string()) {
      list.At(i).Expected("[token, score]");
    }
    vocabulary.Add(static_cast<std::int64_t>(i), entry[0].get_ref<const std::string&>(),
                   list.place());
    scores.push_back(list.At(i).At(1).Number());
  }
  UnigramOptions options;
  options.byte_fallback = node.BoolOr("byte_fallback", false);
  if (const auto unk = node.Find("unk_id")) {
    const std::int64_t id = unk->Integer();
    if (id < 0 || static_cast<size_t>(id) >= scores.size())
      unk->Expected("an id of the vocabulary");
    options.unk = static_cast<TokenId>(id);
  }
  parts.specials.unk = options.unk;
  parts.kind = "Unigram";
  parts.model =
      std::make_unique<UnigramModel>(std::move(vocabulary), std::move(scores), options, TokenSet());
}

void ReadWordPiece(const JsonNode& node, TokenizerParts& parts) {
  Vocabulary vocabulary = ReadVocabularyObject(node.Get("vocab"));
  const std::string unk = node.StringOr("unk_token", "[UNK]");
  const std::optional<TokenId> unk_id = vocabulary.Find(unk);
  if (!unk_id) {
    Throw(ErrorKind::kFormat, "{}.unk_token: '{}' is not in model.vocab", node.place(), unk);
  }
  WordPieceOptions options;
  options.unk = *unk_id;
  options.continuing_prefix = node.StringOr("continuing_subword_prefix", "##");
  if (const auto maximum = node.Find("max_input_chars_per_word")) {
    const std::int64_t n = maximum->Integer();
    if (n < 0) maximum->Expected("a count");
    options.max_characters = static_cast<size_t>(n);
  }
  parts.specials.unk = unk_id;
  parts.continuing_prefix = options.continuing_prefix;
  parts.kind = "WordPiece";
  parts.model = std::make_unique<WordPieceModel>(std::move(vocabulary), std::move(options));
}

// Fills model, kind, unk and, for WordPiece, continuing_prefix.
void ReadModel(const JsonNode& node, TokenizerParts& parts) {
  std::string type = node.StringOr("type", "");
  if (type.empty()) {  // files from before 2021 omit it
    type = node.Find("merges")                    ? "BPE"
           : node.Get("vocab").value().is_array() ? "Unigram"
                                                  : "WordPiece";
  }
  if (type == "BPE") {
    ReadBpe(node, parts);
  } else if (type == "Unigram") {
    ReadUnigram(node, parts);
  } else if (type == "WordPiece") {
    ReadWordPiece(node, parts);
  } else {
    node.Unsupported(type);
  }
}

constexpr size_t kMaxTokenizerBytes = size_t{1} << 28;  // the largest known are about 35 MB
constexpr size_t kMaxConfigBytes = size_t{1} << 24;

std::vector<AddedToken> ReadAddedTokens(const JsonNode& list, const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  for (const JsonNode& node : list.Elements()) {
    AddedToken token;
    token.content = node.Get("content").String();
    const std::int64_t id = node.Get("id").Integer();
    if (id < 0 || id > Vocabulary::kMaxId) node.Get("id").Expected("a token id");
    token.id = vocabulary.Find(token.content).value_or(static_cast<TokenId>(id));
    token.single_word = node.BoolOr("single_word", false);
    token.lstrip = node.BoolOr("lstrip", false);
    token.rstrip = node.BoolOr("rstrip", false);
    token.special = node.BoolOr("special", false);
    token.normalized = node.BoolOr("normalized", !token.special);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// A token of tokenizer_config.json: its text, or an object with "content".
std::optional<std::string> ReadTokenText(const JsonNode& config, const std::string& key) {
  const std::optional<JsonNode> node = config.Find(key);
  if (!node) return std::nullopt;
  if (node->value().is_object()) return node->Get("content").String();
  return node->String();
}

// A template, or a list of {name, template} of which "default" is taken (else the first).
std::string ReadChatTemplate(const JsonNode& config) {
  const std::optional<JsonNode> node = config.Find("chat_template");
  if (!node) return {};
  if (node->value().is_string()) return node->String();
  std::string first;
  for (const JsonNode& entry : node->Elements()) {
    std::string text = entry.Get("template").String();
    if (entry.Get("name").String() == "default") return text;
    if (first.empty()) first = std::move(text);
  }
  return first;
}

void ReadConfig(const JsonNode& config, TokenizerParts& parts) {
  const auto find = [&](const std::string& key) -> std::optional<TokenId> {
    const std::optional<std::string> text = ReadTokenText(config, key);
    return text ? parts.Find(*text) : std::nullopt;
  };
  parts.specials.bos = find("bos_token");
  parts.specials.eos = find("eos_token");
  if (const auto unk = find("unk_token")) parts.specials.unk = unk;
  if (parts.specials.eos) parts.specials.end_ids = {*parts.specials.eos};
  parts.chat_template = ReadChatTemplate(config);
}

TokenSpelling SpellingOf(const Json& decoder, const std::string& kind) {
  const std::string text = decoder.is_null() ? std::string() : decoder.dump();
  if (text.find("\"ByteLevel\"") != std::string::npos) return TokenSpelling::kByteLevel;
  if (kind == "WordPiece") return TokenSpelling::kWordPiece;
  if (text.find("\u2581") != std::string::npos || text.find("Metaspace") != std::string::npos) {
    return TokenSpelling::kMetaspace;
  }
  return TokenSpelling::kPlain;
}

void CheckPostProcessorIds(const TokenizerParts& parts) {
  for (const auto* ids : {&parts.before, &parts.after}) {
    for (const TokenId id : *ids) {
      if (parts.Text(id).empty()) {
        Throw(ErrorKind::kFormat, "{}: post_processor: id {} is not in the vocabulary",
              parts.source, id);
      }
    }
  }
}

}  // namespace

std::unique_ptr<TokenizerParts> ReadTokenizerJsonText(std::string_view tokenizer_json,
                                                      std::string_view config_json,
                                                      const std::string& what) {
  auto parts = std::make_unique<TokenizerParts>();
  parts->source = what;
  parts->pre_name = "tokenizer.json";
  const Json json = ParseJson(tokenizer_json, what);
  const JsonNode root(json, what + ":");
  ReadModel(root.Get("model"), *parts);
  if (const auto node = root.Find("normalizer")) ReadNormalizer(*node, parts->normalizer);
  if (const auto node = root.Find("added_tokens")) {
    parts->SetAddedTokens(ReadAddedTokens(*node, parts->model->vocabulary()));
  }
  if (const auto node = root.Find("pre_tokenizer")) ReadPreTokenizer(*node, parts->pretokenizer);
  if (parts->cut_at_metaspace) {
    parts->pretokenizer.Add(CutAtMetaspaceStep(), KnownStep::kMetaspaceCuts);
  }
  if (const auto node = root.Find("post_processor")) ReadPostProcessor(*node, *parts);
  CheckPostProcessorIds(*parts);
  const auto decoder = root.Find("decoder");
  if (decoder) {
    ReadDecoder(*decoder, false, parts->decoder);
  } else {
    parts->decoder.Add(JoinWithSpacesStep());
  }
  parts->spelling = SpellingOf(decoder ? decoder->value() : Json(), parts->kind);
  if (!config_json.empty()) {
    const std::string config_name = what + " (tokenizer_config.json)";
    const Json config = ParseJson(config_json, config_name);
    ReadConfig(JsonNode(config, config_name + ":"), *parts);
  }
  parts->FindEndIds();
  return parts;
}

std::unique_ptr<TokenizerParts> ReadTokenizerJson(const std::filesystem::path& path) {
  std::error_code unreadable;
  const auto exists = [&](const std::filesystem::path& p) {
    return std::filesystem::exists(p, unreadable);
  };
  const bool is_directory = std::filesystem::is_directory(path, unreadable);
  const std::filesystem::path file = is_directory ? path / "tokenizer.json" : path;
  const std::filesystem::path directory = file.parent_path();
  if (!exists(file)) {
    Throw(ErrorKind::kNotFound, "{}: no tokenizer{}", file.string(),
          exists(directory / "tokenizer.model")
              ? " (a SentencePiece tokenizer.model alone is not supported)"
              : "");
  }
  const auto read_if_there = [&](const std::filesystem::path& p) {
    return exists(p) ? ReadTextFile(p, kMaxConfigBytes) : std::string();
  };
  const std::string config = read_if_there(directory / "tokenizer_config.json");
  const std::string json = ReadTextFile(file, kMaxTokenizerBytes);
  std::unique_ptr<TokenizerParts> parts = ReadTokenizerJsonText(json, config, file.string());
  std::string chat_template = read_if_there(directory / "chat_template.jinja");
  if (!chat_template.empty()) parts->chat_template = std::move(chat_template);
  return parts;
}

}  // namespace banyan
