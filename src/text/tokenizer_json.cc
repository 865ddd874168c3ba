// Hugging Face: tokenizer.json and what stands beside it.
#include "text/tokenizer_json.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/mapped_file.h"
#include "text/tokenizer.h"

namespace banyan {
namespace {

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
  parts.bos = find("bos_token");
  parts.eos = find("eos_token");
  parts.pad = find("pad_token");
  if (const auto unk = find("unk_token")) parts.unk = unk;
  if (parts.eos) parts.end_ids = {*parts.eos};
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

std::unique_ptr<TokenizerParts> ReadParts(std::string_view tokenizer_json,
                                          std::string_view config_json, const std::string& what) {
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

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::FromHuggingFaceText(std::string_view tokenizer_json,
                                                                std::string_view config_json,
                                                                const std::string& what) {
  return std::make_shared<const Tokenizer>(ReadParts(tokenizer_json, config_json, what));
}

std::shared_ptr<const Tokenizer> Tokenizer::FromHuggingFace(const std::filesystem::path& path) {
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
  std::unique_ptr<TokenizerParts> parts = ReadParts(json, config, file.string());
  std::string chat_template = read_if_there(directory / "chat_template.jinja");
  if (!chat_template.empty()) parts->chat_template = std::move(chat_template);
  return std::make_shared<const Tokenizer>(std::move(parts));
}

}  // namespace banyan
