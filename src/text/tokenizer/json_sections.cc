// JsonNode, then one reader for each section: a chain of comparisons of type names.
#include "text/tokenizer/json_sections.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/unicode.h"

namespace banyan {

void JsonNode::Expected(std::string_view what) const {
  std::string found = value_->type_name();
  if (value_->is_string())
    found += " '" + value_->get_ref<const std::string&>().substr(0, 64) + "'";
  if (value_->is_number()) found += " " + value_->dump();
  Throw(ErrorKind::kFormat, "{}: expected {}, found {}", place_, what, found);
}

void JsonNode::Unsupported(std::string_view name) const {
  Throw(ErrorKind::kUnsupported, "{}: '{}' is not supported", place_, name.substr(0, 64));
}

std::optional<JsonNode> JsonNode::Find(const std::string& key) const {
  if (!value_->is_object()) Expected("an object");
  const auto it = value_->find(key);
  if (it == value_->end() || it->is_null()) return std::nullopt;
  const bool top = place_.ends_with(':');
  return JsonNode(*it, place_ + (top ? " " : ".") + key);
}

JsonNode JsonNode::Get(const std::string& key) const {
  std::optional<JsonNode> node = Find(key);
  if (!node) {
    Throw(ErrorKind::kFormat, "{}{}{}: missing", place_, place_.ends_with(':') ? " " : ".", key);
  }
  return *std::move(node);
}

JsonNode JsonNode::At(size_t index) const {
  return {(*value_)[index], fmt::format("{}[{}]", place_, index)};
}

std::vector<JsonNode> JsonNode::Elements() const {
  if (!value_->is_array()) Expected("an array");
  std::vector<JsonNode> out;
  out.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) out.push_back(At(i));
  return out;
}

std::string JsonNode::String() const {
  if (!value_->is_string()) Expected("a string");
  return value_->get<std::string>();
}

bool JsonNode::Bool() const {
  if (!value_->is_boolean()) Expected("true or false");
  return value_->get<bool>();
}

std::int64_t JsonNode::Integer() const {
  if (value_->is_number_unsigned()) {
    const auto n = value_->get<std::uint64_t>();
    if (n > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      Expected("a smaller integer");
    }
    return static_cast<std::int64_t>(n);
  }
  if (!value_->is_number_integer()) Expected("an integer");
  return value_->get<std::int64_t>();
}

double JsonNode::Number() const {
  if (!value_->is_number()) Expected("a number");
  const double n = value_->get<double>();
  if (!std::isfinite(n)) Expected("a finite number");
  return n;
}

std::string JsonNode::StringOr(const std::string& key, std::string fallback) const {
  const std::optional<JsonNode> node = Find(key);
  return node ? node->String() : std::move(fallback);
}

bool JsonNode::BoolOr(const std::string& key, bool fallback) const {
  const std::optional<JsonNode> node = Find(key);
  return node ? node->Bool() : fallback;
}

namespace {

constexpr int kMaxSequenceDepth = 16;

struct Pattern {       // {"String": …} or {"Regex": …}
  std::string string;  // the text to find, or the expression's source
  std::shared_ptr<const Regex> regex;
};

Pattern ReadPattern(const JsonNode& node) {
  if (const auto text = node.Find("String")) return {text->String(), nullptr};
  if (const auto regex = node.Find("Regex")) {
    const std::string source = regex->String();
    return {source, std::make_shared<const Regex>(source, regex->place())};
  }
  node.Expected("an object with String or Regex");
}

SplitBehavior ReadBehavior(const JsonNode& node) {
  const std::string name = node.String();
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  node.Unsupported(name);
}

std::string ReadCharacter(const JsonNode& node) {
  const std::string text = node.String();
  if (text.empty() || ReadUtf8(text, 0).length != text.size()) node.Expected("one character");
  return text;
}

PrependScheme ReadPrependScheme(const JsonNode& node) {
  const bool add_prefix = node.BoolOr("add_prefix_space", true);
  const auto scheme = node.Find("prepend_scheme");
  if (!scheme) return add_prefix ? PrependScheme::kAlways : PrependScheme::kNever;
  const std::string name = scheme->String();
  if (name == "always") return PrependScheme::kAlways;
  if (name == "first") return PrependScheme::kFirst;
  if (name == "never") return PrependScheme::kNever;
  scheme->Unsupported(name);
}

std::vector<JsonNode> SequenceElements(const JsonNode& node, const std::string& key, int depth) {
  if (depth >= kMaxSequenceDepth) node.Expected("sequences that nest less deeply");
  return node.Get(key).Elements();
}

void ReadNormalizerAt(const JsonNode& node, int depth, Normalizer& out) {
  const std::string type = node.Get("type").String();
  if (type == "Sequence") {
    for (const JsonNode& inner : SequenceElements(node, "normalizers", depth)) {
      ReadNormalizerAt(inner, depth + 1, out);
    }
  } else if (type == "NFC") {
    out.Add(NormalFormStep(NormalForm::kNfc), Normalizer::Effect::kNfc);
  } else if (type == "NFD") {
    out.Add(NormalFormStep(NormalForm::kNfd), Normalizer::Effect::kNormalForm);
  } else if (type == "NFKC") {
    out.Add(NormalFormStep(NormalForm::kNfkc), Normalizer::Effect::kNormalForm);
  } else if (type == "NFKD") {
    out.Add(NormalFormStep(NormalForm::kNfkd), Normalizer::Effect::kNormalForm);
  } else if (type == "Lowercase") {
    out.Add(LowercaseStep());
  } else if (type == "StripAccents") {
    out.Add(StripAccentsStep());
  } else if (type == "BertNormalizer") {
    BertNormalizerOptions options;
    options.clean_text = node.BoolOr("clean_text", true);
    options.handle_chinese_chars = node.BoolOr("handle_chinese_chars", true);
    options.lowercase = node.BoolOr("lowercase", true);
    options.strip_accents = node.BoolOr("strip_accents", options.lowercase);
    out.Add(BertStep(options));
  } else if (type == "Prepend") {
    out.Add(PrependStep(node.Get("prepend").String()), Normalizer::Effect::kPrepend);
  } else if (type == "Strip") {
    out.Add(StripStep(node.BoolOr("strip_left", true), node.BoolOr("strip_right", true)));
  } else if (type == "Replace") {
    Pattern pattern = ReadPattern(node.Get("pattern"));
    std::string content = node.Get("content").String();
    if (pattern.regex) {
      out.Add(ReplaceRegexStep(pattern.regex, std::move(content)));
    } else {
      out.Add(
          ReplaceStringStep(pattern.string, std::move(content)),
          pattern.string == " " ? Normalizer::Effect::kReplaceSpaces : Normalizer::Effect::kAny);
    }
  } else if (type == "Precompiled") {
    if (const auto map = node.Find("precompiled_charsmap")) {
      const std::string blob = DecodeBase64(map->String(), map->place());
      if (!blob.empty()) {
        out.Add(CharsmapStep(std::make_shared<const Charsmap>(blob, map->place())));
      }
    }
  } else if (type == "Nmt") {
    out.Add(NmtStep());
  } else if (type == "ByteLevel") {
    out.Add(ByteLevelStep());
  } else {
    node.Unsupported(type);
  }
}

void ReadPreTokenizerAt(const JsonNode& node, int depth, PreTokenizer& out) {
  const std::string type = node.Get("type").String();
  if (type == "Sequence") {
    for (const JsonNode& inner : SequenceElements(node, "pretokenizers", depth)) {
      ReadPreTokenizerAt(inner, depth + 1, out);
    }
  } else if (type == "Split") {
    Pattern pattern = ReadPattern(node.Get("pattern"));
    const SplitBehavior behavior = ReadBehavior(node.Get("behavior"));
    const bool invert = node.BoolOr("invert", false);
    if (pattern.regex) {
      const bool isolates = behavior == SplitBehavior::kIsolated && !invert;
      out.Add(SplitRegexStep(pattern.regex, behavior, invert),
              isolates ? KnownPattern(pattern.string) : KnownStep::kUnknown);
    } else {
      out.Add(SplitStringStep(pattern.string, behavior, invert));
    }
  } else if (type == "ByteLevel") {
    std::shared_ptr<const Regex> regex;
    KnownStep known = KnownStep::kByteLevel;
    if (node.BoolOr("use_regex", true)) {
      regex = std::make_shared<const Regex>(kGpt2Pattern, node.place());
      known = KnownStep::kGpt2ByteLevel;
    }
    const bool add_prefix = node.BoolOr("add_prefix_space", true);
    out.Add(ByteLevelPreTokenizerStep(regex, add_prefix), add_prefix ? KnownStep::kUnknown : known);
  } else if (type == "Digits") {
    const bool alone = node.BoolOr("individual_digits", false);
    out.Add(SplitCharacterStep(IsNumeric,
                               alone ? SplitBehavior::kIsolated : SplitBehavior::kContiguous),
            alone ? KnownStep::kNumericsAlone : KnownStep::kUnknown);
  } else if (type == "Metaspace") {
    MetaspaceOptions options;
    if (const auto replacement = node.Find("replacement")) {
      options.replacement = ReadCharacter(*replacement);
    }
    options.prepend = ReadPrependScheme(node);
    options.split = node.BoolOr("split", true);
    const bool usual = options.replacement == "\u2581";
    const KnownStep known = options.split ? KnownStep::kMetaspaceWords : KnownStep::kMetaspace;
    out.Add(MetaspaceStep(std::move(options)), usual ? known : KnownStep::kUnknown);
  } else if (type == "Whitespace") {
    out.Add(WhitespaceStep());
  } else if (type == "WhitespaceSplit") {
    out.Add(SplitCharacterStep(IsWhitespace, SplitBehavior::kRemoved));
  } else if (type == "BertPreTokenizer") {
    out.Add(BertPreTokenizerStep());
  } else if (type == "Punctuation") {
    const auto behavior = node.Find("behavior");
    out.Add(SplitCharacterStep(IsPunctuation,
                               behavior ? ReadBehavior(*behavior) : SplitBehavior::kIsolated));
  } else if (type == "CharDelimiterSplit") {
    out.Add(SplitStringStep(ReadCharacter(node.Get("delimiter")), SplitBehavior::kRemoved, false));
  } else {
    node.Unsupported(type);
  }
}

size_t ReadCount(const JsonNode& node) {
  const std::int64_t n = node.Integer();
  if (n < 0 || n > std::numeric_limits<std::int32_t>::max()) node.Expected("a count");
  return static_cast<size_t>(n);
}

bool ReadDecoderAt(const JsonNode& node, int depth, bool fused, Decoder& out) {
  const std::string type = node.Get("type").String();
  if (type == "Sequence") {
    for (const JsonNode& inner : SequenceElements(node, "decoders", depth)) {
      fused = ReadDecoderAt(inner, depth + 1, fused, out);
    }
    return fused;
  }
  if (type == "ByteLevel") {
    out.AddByteLevel();
    return true;
  }
  if (type == "Fuse") {
    out.Add(FuseStep());
    return true;
  }
  if (type == "ByteFallback") {
    out.Add(ByteFallbackStep(fused));
  } else if (type == "Replace") {
    Pattern pattern = ReadPattern(node.Get("pattern"));
    std::string content = node.Get("content").String();
    out.Add(pattern.regex ? ReplaceRegexDecoderStep(pattern.regex, std::move(content), fused)
                          : ReplaceStringDecoderStep(pattern.string, std::move(content), fused));
  } else if (type == "Strip") {
    StripDecoderOptions options;
    options.content = ReadUtf8(ReadCharacter(node.Get("content")), 0).code;
    options.start = ReadCount(node.Get("start"));
    options.stop = ReadCount(node.Get("stop"));
    out.Add(StripDecoderStep(options, fused));
  } else if (type == "Metaspace") {
    const auto replacement = node.Find("replacement");
    out.Add(MetaspaceDecoderStep(replacement ? ReadCharacter(*replacement) : "\u2581",
                                 ReadPrependScheme(node), fused));
  } else if (type == "WordPiece") {
    out.Add(
        WordPieceDecoderStep(node.StringOr("prefix", "##"), node.BoolOr("cleanup", true), fused));
  } else if (type == "BPEDecoder") {
    out.Add(BpeDecoderStep(node.StringOr("suffix", "</w>"), fused));
  } else {
    node.Unsupported(type);
  }
  return fused;
}

// TemplateProcessing's "single" template: special tokens around one A.
void ReadTemplate(const JsonNode& node, TokenizerParts& parts) {
  const JsonNode special = node.Get("special_tokens");
  std::vector<TokenId> before, after;
  bool seen_text = false;
  for (const JsonNode& item : node.Get("single").Elements()) {
    if (const auto sequence = item.Find("Sequence")) {
      if (sequence->Get("id").String() != "A" || seen_text) {
        sequence->Expected("the sequence A exactly once");
      }
      seen_text = true;
      continue;
    }
    const JsonNode token = special.Get(item.Get("SpecialToken").Get("id").String());
    for (const JsonNode& id : token.Get("ids").Elements()) {
      const std::int64_t n = id.Integer();
      if (n < 0 || n > Vocabulary::kMaxId) id.Expected("a token id");
      (seen_text ? after : before).push_back(static_cast<TokenId>(n));
    }
  }
  if (!seen_text) node.Expected("a template with the sequence A");
  parts.before.insert(parts.before.begin(), before.begin(), before.end());
  parts.after.insert(parts.after.end(), after.begin(), after.end());
}

TokenId ReadNamedId(const JsonNode& node) {  // ["</s>", 2]
  if (!node.value().is_array() || node.value().size() != 2) node.Expected("[token, id]");
  const std::int64_t id = node.At(1).Integer();
  if (id < 0 || id > Vocabulary::kMaxId) node.At(1).Expected("a token id");
  return static_cast<TokenId>(id);
}

void ReadPostProcessorAt(const JsonNode& node, int depth, TokenizerParts& parts) {
  const std::string type = node.Get("type").String();
  if (type == "Sequence") {
    for (const JsonNode& inner : SequenceElements(node, "processors", depth)) {
      ReadPostProcessorAt(inner, depth + 1, parts);
    }
  } else if (type == "TemplateProcessing") {
    ReadTemplate(node, parts);
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    parts.before.insert(parts.before.begin(), ReadNamedId(node.Get("cls")));
    parts.after.push_back(ReadNamedId(node.Get("sep")));
  } else if (type != "ByteLevel") {  // ByteLevel only moves offsets
    node.Unsupported(type);
  }
}

}  // namespace

void ReadNormalizer(const JsonNode& node, Normalizer& out) { ReadNormalizerAt(node, 0, out); }
void ReadPreTokenizer(const JsonNode& node, PreTokenizer& out) { ReadPreTokenizerAt(node, 0, out); }
bool ReadDecoder(const JsonNode& node, bool fused, Decoder& out) {
  return ReadDecoderAt(node, 0, fused, out);
}
void ReadPostProcessor(const JsonNode& node, TokenizerParts& parts) {
  ReadPostProcessorAt(node, 0, parts);
}

}  // namespace banyan
