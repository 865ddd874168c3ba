// Each kind's prompt or result, from the fields of its line.
#include "ids/ids_kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "banyan/error.h"
#include "banyan/request.h"

namespace banyan::app {
namespace {

PanelOptions PanelFields(const Json& line) {
  PanelOptions panel;
  panel.gamma = NumberField(line, "gamma", panel.gamma);
  if (line.contains("rule")) panel.rule = ParseFusionRule(StringField(line, "rule"));
  if (line.contains("scores")) panel.scores = ParsePanelScores(StringField(line, "scores"));
  panel.plausibility = NumberField(line, "plausibility", panel.plausibility);
  panel.abstention = NumberField(line, "abstention", panel.abstention);
  if (line.contains("null")) panel.null_tokens = TokenList(line.at("null"), "null");
  if (!line.contains("beta")) return panel;
  const Json& beta = line.at("beta");
  if (beta.is_number()) {
    panel.beta_rule = BetaRule::kFixed;
    panel.beta = beta.get<double>();
  } else if (beta == "shared") {
    panel.beta_rule = BetaRule::kShared;
  } else if (beta != "expert") {
    BadInput(
        fmt::format("'beta': expected \"expert\", \"shared\" or a number, found {}", beta.dump()));
  }
  return panel;
}

// Tokens that a value may have: one number, or one for every piece.
std::vector<int> Budgets(const Json& kmax, size_t pieces) {
  const auto read = [](const Json& value) { return IntField({{"kmax", value}}, "kmax", 0); };
  std::vector<int> budgets;
  if (!kmax.is_array()) {
    budgets.assign(pieces, read(kmax));
    return budgets;
  }
  for (const Json& value : kmax) budgets.push_back(read(value));
  if (budgets.size() != pieces) {
    BadInput(fmt::format("'kmax': expected one number, or one for each of {} attributes; found {}",
                         pieces, budgets.size()));
  }
  return budgets;
}

}  // namespace

IdsPrompt LogitsPrompt(const Json& line, const TagAnswer& tag) {
  IdsPrompt prompt;
  prompt.root.tokens = TokenList(Field(line, "ids"), "ids");
  prompt.root.adapter = AdapterField(line);
  AnswerRequest& answer = prompt.root.answers.emplace_back();
  answer.max_new = 0;
  answer.want_logits = true;
  answer.tag = tag(0, 0);
  return prompt;
}

IdsPrompt GreedyPrompt(const Json& line, const TagAnswer& tag) {
  IdsPrompt prompt;
  prompt.root.tokens = TokenList(Field(line, "ids"), "ids");
  prompt.root.adapter = AdapterField(line);
  prompt.root.answers.push_back(AnswerFields(line));
  prompt.root.answers.back().tag = tag(0, 0);
  return prompt;
}

IdsPrompt StackedPrompt(const Json& line, const TagAnswer& tag) {
  const AnswerRequest wanted = AnswerFields(line);
  IdsPrompt prompt;
  prompt.answers.clear();
  prompt.root.tokens = TokenList(Field(line, "p"), "p");
  prompt.root.adapter = AdapterField(line);
  const Json& contexts = Field(line, "contexts");
  if (!contexts.is_array()) BadInput("'contexts': expected a list");
  for (const Json& context : contexts) {
    PromptSegment segment;
    segment.tokens = TokenList(Field(context, "c"), "c");
    const Json& questions = Field(context, "questions");
    if (!questions.is_array()) BadInput("'questions': expected a list");
    for (const Json& question : questions) {
      PromptSegment leaf;
      leaf.tokens = TokenList(Field(question, "x"), "x");
      AnswerRequest& answer = leaf.answers.emplace_back(wanted);
      answer.request_key = prompt.answers.size();
      answer.question_key = segment.below.size();
      answer.tag = tag(prompt.answers.size(), segment.below.size());
      segment.below.push_back(std::move(leaf));
    }
    prompt.answers.push_back(segment.below.size());
    prompt.root.below.push_back(std::move(segment));
  }
  return prompt;
}

IdsPrompt ExpertsPrompt(const Json& line, const TagAnswer& tag) {
  AnswerRequest answer = AnswerFields(line);
  answer.tag = tag(0, 0);
  const Json& documents = Field(line, "documents");
  const Json& relevance = Field(line, "r");
  if (!documents.is_array() || !relevance.is_array() || documents.size() != relevance.size()) {
    BadInput("'documents' and 'r': expected two lists of the same length");
  }
  PromptSegment question;
  question.tokens = TokenList(Field(line, "question"), "question");
  PromptSegment root;
  root.tokens = TokenList(Field(line, "system"), "system");
  for (size_t k = 0; k < documents.size(); ++k) {
    if (!relevance[k].is_number()) BadInput("'r': expected numbers");
    PromptSegment& document = root.below.emplace_back();
    document.tokens = TokenList(documents[k], "documents");
    document.below.push_back(question);
    document.below.back().experts.push_back({answer.tag, relevance[k].get<double>()});
  }
  answer.panel = PanelFields(line);
  question.answers.push_back(std::move(answer));
  root.below.push_back(std::move(question));
  root.adapter = AdapterField(line);
  return {std::move(root)};
}

IdsPrompt SkeletonPrompt(const Json& line, const TagAnswer& tag) {
  const AnswerRequest wanted = AnswerFields(line);
  const Json& attributes = Field(line, "attributes");
  if (!attributes.is_array()) BadInput("'attributes': expected a list");
  const std::vector<int> budgets = Budgets(Field(line, "kmax"), attributes.size());
  const bool isolated = line.value("isolated", false);
  const bool gaps = !line.contains("gap") || IntField(line, "gap", 0) > 0;
  if (!gaps && !isolated) BadInput("'gap': only isolated values need none");

  PromptSegment root;
  root.tokens = TokenList(Field(line, "prompt"), "prompt");
  auto position = static_cast<std::int64_t>(root.tokens.size());
  PromptSegment* above = &root;
  for (size_t n = 0; n < attributes.size(); ++n) {
    PromptSegment& piece = above->below.emplace_back();
    piece.tokens = TokenList(attributes[n], "attributes");
    if (piece.tokens.empty()) BadInput("'attributes': a piece is empty");
    if (gaps) piece.first_position = static_cast<std::int32_t>(position);
    position += static_cast<std::int64_t>(piece.tokens.size()) + budgets[n];
    if (position > 1'000'000'000) BadInput("'kmax': the values need too many positions");
    AnswerRequest& value = piece.answers.emplace_back(wanted);
    value.max_new = budgets[n];
    value.question_key = n;
    value.tag = tag(0, n);
    above = &piece;
  }
  if (!root.below.empty()) root.below.front().skeleton = !isolated;
  root.adapter = AdapterField(line);
  return {std::move(root), {attributes.size()}};
}

const Text& IdsTokenizer::NeedText() const {
  if (!text_)
    BadInput("this kind needs a tokenizer: the model has none, give one with --tokenizer");
  return *text_;
}

std::string IdsTokenizer::Tokenize(const Json& line, const std::string& id) const {
  const bool add_special = line.value("add_special", false);
  const std::vector<TokenId> ids =
      NeedText().Encode(StringField(line, "text"), add_special, /*parse_special=*/true);
  return TokensLine(id, ids);
}

std::string IdsTokenizer::Detokenize(const Json& line, const std::string& id) const {
  return TextLine(id,
                  NeedText().Decode(TokenList(Field(line, "ids"), "ids"), /*skip_special=*/false));
}

std::string IdsTokenizer::Chat(const Json& line, const std::string& id) const {
  const std::string extra = line.contains("extra") ? line.at("extra").dump() : "";
  std::string text;
  for (const ChatText& piece : NeedText().RenderChat(
           Field(line, "messages").dump(), line.value("add_generation_prompt", false), extra)) {
    text += piece.text;
  }
  return TextLine(id, text);
}

std::string IdsTokenizer::Mask(const Json& line, const std::string& id) {
  const Text& text = NeedText();
  const bool is_schema = line.contains("schema");
  const std::string source = StringField(line, is_schema ? "schema" : "regex");
  if (!trie_) trie_ = MakeTokenTrie(text);
  if (!constraint_ || source != constraint_source_ || is_schema != constraint_is_schema_) {
    constraint_ = is_schema ? Constraint::FromJsonSchema(source, trie_)
                            : Constraint::FromRegex(source, trie_);
    constraint_source_ = source;
    constraint_is_schema_ = is_schema;
  }
  ConstraintState state(constraint_);
  for (const TokenId token : TokenList(Field(line, "ids"), "ids")) {
    if (!state.Advance(token)) BadInput(fmt::format("'ids': token {} is not allowed", token));
  }
  return MaskLine(id, MaskTokens(*state.AllowedMask()), state.MayEnd());
}

IdsEncoder::IdsEncoder(std::shared_ptr<Encoder> encoder, const EngineOptions& options)
    : encoder_(std::move(encoder)), batch_rows_(options.one_by_one ? 1 : options.batch_rows) {}

void IdsEncoder::AddEmbed(size_t row, std::vector<TokenId> text) {
  if (!encoder_->embeds()) {
    throw Error(ErrorKind::kUnsupported, "the model is a reranker: it has the kind rerank alone");
  }
  Add(row, std::move(text));
}

void IdsEncoder::AddRerank(size_t row, std::vector<TokenId> text) {
  if (!encoder_->reranks()) {
    throw Error(ErrorKind::kUnsupported, "the model is no reranker: it has the kind embed alone");
  }
  Add(row, std::move(text));
}

void IdsEncoder::Add(size_t row, std::vector<TokenId> text) {
  encoder_->Check(text);
  waiting_tokens_ += text.size();
  rows_.push_back(row);
  texts_.push_back(std::move(text));
}

std::vector<std::pair<size_t, std::string>> IdsEncoder::Take() {
  std::vector<std::pair<size_t, std::string>> results;
  if (texts_.empty()) return results;
  if (encoder_->reranks()) {
    const std::vector<float> logits = encoder_->Rerank(texts_, batch_rows_);
    for (size_t i = 0; i < logits.size(); ++i) {
      results.emplace_back(rows_[i], "\"logit\":" + FloatText(logits[i]));
    }
  } else {
    EmbedOptions options;
    options.batch_rows = batch_rows_;
    const std::vector<Embedding> embeddings = encoder_->Embed(texts_, options);
    for (size_t i = 0; i < embeddings.size(); ++i) {
      results.emplace_back(
          rows_[i], EmbeddingFields(embeddings[i],
                                    {encoder_->has_sparse(), encoder_->has_colbert(), "colbert"}));
    }
  }
  rows_.clear();
  texts_.clear();
  waiting_tokens_ = 0;
  return results;
}

}  // namespace banyan::app
