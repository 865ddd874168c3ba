// The model section of tokenizer.json: vocabulary, merges, scores.
#include <string_view>
#include <utility>

#include "text/bpe_model.h"
#include "text/tokenizer_json.h"
#include "text/unigram_model.h"
#include "text/wordpiece_model.h"

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
    // Files name an unknown token that is only an added one; then it is never produced.
    parts.unk = options.unk;
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
  parts.unk = options.unk;
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
  parts.unk = unk_id;
  parts.continuing_prefix = options.continuing_prefix;
  parts.kind = "WordPiece";
  parts.model = std::make_unique<WordPieceModel>(std::move(vocabulary), std::move(options));
}

}  // namespace

void ReadModel(const JsonNode& node, TokenizerParts& parts) {
  std::string type = node.StringOr("type", "");
  if (type.empty()) {  // files of before 2021 leave it out
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

}  // namespace banyan
