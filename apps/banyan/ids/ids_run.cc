#include "ids/ids_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <utility>
#include <vector>

#include "banyan/error.h"
#include "ids/ids_experts.h"
#include "program/visible.h"
#include "terminal/screen.h"

namespace banyan::app {

IdsRun::IdsRun(const Models& models, const RunOptions& options)
    : text_(models.text), explain_(options.explain), terminal_(::isatty(STDOUT_FILENO) == 1) {
  EngineOptions engine = options.engine;
  if (engine.mixed_rows == 0) engine.mixed_rows = -1;  // only the end counts
  if (models.decoder) engine_ = std::make_unique<Engine>(models.decoder, engine);
  if (models.encoder) texts_ = std::make_unique<IdsTexts>(models.encoder, engine);
}

int IdsRun::Run(std::istream& in, std::ostream& out) {
  std::string line;
  std::int64_t number = 0;
  while (std::getline(in, line)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    rows_.emplace_back();
    Read(line, number);
    while (engine_ && engine_->waiting() > 4 * engine_->wanted_waiting() && engine_->Step())
      Collect();
    if (texts_ && texts_->full()) Encode();
    Write(out);
  }
  if (texts_) Encode();
  if (engine_ && explain_) Say(engine_->Explain());
  while (engine_ && engine_->Step()) {
    Collect();
    Write(out);
  }
  Collect();
  Write(out);
  return failed_ ? 1 : 0;
}

void IdsRun::Read(const std::string& line, std::int64_t number) {
  IdsRow& row = rows_.back();
  row.first_tag = next_tag_;
  try {
    const Json json = ParseLine(line, number);
    if (!json.is_object()) {
      BadInput(fmt::format("line {}: expected an object, found {}", number, json.type_name()));
    }
    if (json.contains("id")) row.id = IdText(json, line);
    row.kind = StringField(json, "kind");
    row.logprobs = json.value("logprobs", false);
    Start(json);
  } catch (const Error& e) {
    Refuse(row, e.kind(), e.what());
  } catch (const Json::exception& e) {
    Refuse(row, ErrorKind::kInput, e.what());
  }
}

void IdsRun::Refuse(IdsRow& row, ErrorKind kind, const std::string& message) {
  places_.erase(places_.lower_bound(row.first_tag), places_.end());
  row.missing = 0;
  Fail(row, kind, message);
}

void IdsRun::Start(const Json& json) {
  IdsRow& row = rows_.back();
  const std::string& kind = row.kind;
  if (kind == "logits") return StartLogits(json);
  if (kind == "greedy") return StartGreedy(json);
  if (kind == "stacked") return StartStacked(json);
  if (kind == "experts") return StartExperts(json);
  if (kind == "tokenize") return Tokenize(json);
  if (kind == "detokenize") return Detokenize(json);
  if (kind == "chat") return Chat(json);
  if (kind == "mask") return Mask(json);
  if (kind == "embed") return StartEmbed(json);
  if (kind == "rerank") return StartRerank(json);
  if (kind == "skeleton") return StartSkeleton(json);
  BadInput(fmt::format(
      "unknown kind '{}': expected logits, greedy, stacked, skeleton, experts, embed, rerank, "
      "tokenize, detokenize, chat or mask",
      kind));
}

Engine& IdsRun::NeedEngine() {
  if (texts_) {
    throw Error(ErrorKind::kUnsupported,
                "this kind needs a model that writes text; the model is an encoder");
  }
  if (!engine_) BadInput("this kind needs a model: give one with -m");
  return *engine_;
}

IdsTexts& IdsRun::NeedEncoder() {
  if (engine_) {
    throw Error(ErrorKind::kUnsupported,
                "this kind needs an encoder (BERT, XLM-R); the model is one that writes text");
  }
  if (!texts_) BadInput("this kind needs a model: give one with -m");
  return *texts_;
}

const Text& IdsRun::NeedText() {
  if (!text_)
    BadInput("this kind needs a tokenizer: the model has none, give one with --tokenizer");
  return *text_;
}

std::uint64_t IdsRun::NewTag(const Place& place) {
  const std::uint64_t tag = next_tag_++;
  places_[tag] = place;
  return tag;
}

void IdsRun::StartLogits(const Json& json) {
  Engine& engine = NeedEngine();
  PromptSegment prompt;
  prompt.tokens = TokenList(Field(json, "ids"), "ids");
  prompt.adapter = AdapterField(json);
  AnswerRequest answer;
  answer.max_new = 0;
  answer.want_logits = true;
  Submit(engine, std::move(prompt), {std::move(answer)});
}

void IdsRun::StartGreedy(const Json& json) {
  Engine& engine = NeedEngine();
  PromptSegment prompt;
  prompt.tokens = TokenList(Field(json, "ids"), "ids");
  prompt.adapter = AdapterField(json);
  Submit(engine, std::move(prompt), {AnswerFields(json)});
}

void IdsRun::Submit(Engine& engine, PromptSegment prompt, AnswerRequest answer) {
  IdsRow& row = rows_.back();
  row.answers.assign(1, std::vector<Answer>(1));
  row.missing = 1;
  answer.tag = NewTag({first_row_ + rows_.size() - 1, 0, 0});
  prompt.answers.push_back(std::move(answer));
  engine.Submit(std::move(prompt));
}

void IdsRun::StartStacked(const Json& json) {
  Engine& engine = NeedEngine();
  IdsRow& row = rows_.back();
  const AnswerRequest wanted = AnswerFields(json);
  PromptSegment root;
  root.tokens = TokenList(Field(json, "p"), "p");
  root.adapter = AdapterField(json);
  const Json& contexts = Field(json, "contexts");
  if (!contexts.is_array()) BadInput("'contexts': expected a list");
  std::vector<std::vector<Answer>> answers;
  int missing = 0;
  for (const Json& context : contexts) {
    PromptSegment segment;
    segment.tokens = TokenList(Field(context, "c"), "c");
    const Json& questions = Field(context, "questions");
    if (!questions.is_array()) BadInput("'questions': expected a list");
    for (const Json& question : questions) {
      PromptSegment leaf;
      leaf.tokens = TokenList(Field(question, "x"), "x");
      leaf.answers.push_back(wanted);
      leaf.answers.back().request_key = answers.size();
      leaf.answers.back().question_key = segment.below.size();
      leaf.answers.back().tag =
          NewTag({first_row_ + rows_.size() - 1, answers.size(), segment.below.size()});
      segment.below.push_back(std::move(leaf));
      ++missing;
    }
    answers.emplace_back(segment.below.size());
    root.below.push_back(std::move(segment));
  }
  engine.Submit(std::move(root));
  row.answers = std::move(answers);
  row.missing = missing;
  if (missing == 0) Finish(row);
}

void IdsRun::StartExperts(const Json& json) {
  Engine& engine = NeedEngine();
  AnswerRequest answer = AnswerFields(json);
  answer.tag = NewTag({first_row_ + rows_.size() - 1, 0, 0});
  PromptSegment request = ExpertsRequest(json, std::move(answer));
  request.adapter = AdapterField(json);
  IdsRow& row = rows_.back();
  row.answers.assign(1, std::vector<Answer>(1));
  row.missing = 1;
  engine.Submit(std::move(request));
}

void IdsRun::StartEmbed(const Json& json) {
  NeedEncoder().AddEmbed(first_row_ + rows_.size() - 1, TokenList(Field(json, "ids"), "ids"));
  rows_.back().missing = 1;
}

void IdsRun::StartRerank(const Json& json) {
  NeedEncoder().AddRerank(first_row_ + rows_.size() - 1, TokenList(Field(json, "ids"), "ids"));
  rows_.back().missing = 1;
}

void IdsRun::Tokenize(const Json& json) {
  const bool add_special = json.value("add_special", false);
  const std::vector<TokenId> ids =
      NeedText().Encode(StringField(json, "text"), add_special, /*parse_special=*/true);
  rows_.back().text = TokensLine(rows_.back().id, ids);
}

void IdsRun::Detokenize(const Json& json) {
  WriteText(NeedText().Decode(TokenList(Field(json, "ids"), "ids"), /*skip_special=*/false));
}

void IdsRun::Chat(const Json& json) {
  const std::string extra = json.contains("extra") ? json.at("extra").dump() : "";
  std::string text;
  for (const ChatText& piece : NeedText().RenderChat(
           Field(json, "messages").dump(), json.value("add_generation_prompt", false), extra)) {
    text += piece.text;
  }
  WriteText(text);
}

void IdsRun::Mask(const Json& json) {
  const Text& text = NeedText();
  const bool is_schema = json.contains("schema");
  const std::string source = StringField(json, is_schema ? "schema" : "regex");
  if (!trie_) trie_ = MakeTokenTrie(text);
  if (!constraint_ || source != constraint_source_ || is_schema != constraint_is_schema_) {
    constraint_ = is_schema ? Constraint::FromJsonSchema(source, trie_)
                            : Constraint::FromRegex(source, trie_);
    constraint_source_ = source;
    constraint_is_schema_ = is_schema;
  }
  ConstraintState state(constraint_);
  for (const TokenId token : TokenList(Field(json, "ids"), "ids")) {
    if (!state.Advance(token)) BadInput(fmt::format("'ids': token {} is not allowed", token));
  }
  IdsRow& row = rows_.back();
  row.text = MaskLine(row.id, MaskTokens(*state.AllowedMask()), state.MayEnd());
}

void IdsRun::WriteText(const std::string& text) {
  IdsRow& row = rows_.back();
  row.text = TextLine(row.id, text);
}

void IdsRun::Collect() {
  if (!engine_) return;
  for (Answer& answer : engine_->TakeFinished()) {
    const auto place = places_.extract(answer.tag).mapped();
    IdsRow& row = rows_[place.row - first_row_];
    if (answer.finish == FinishReason::kError && row.text.empty()) {
      Fail(row, ErrorKind::kLimit, answer.error);
    }
    row.answers[place.context][place.question] = std::move(answer);
    if (--row.missing == 0 && row.text.empty()) Finish(row);
  }
}

void IdsRun::Encode() {
  for (const auto& [number, fields] : texts_->Take()) {
    IdsRow& row = rows_[number - first_row_];
    row.text = FieldsLine(row.id, fields);
    row.missing = 0;
  }
}

void IdsRun::Fail(IdsRow& row, ErrorKind kind, const std::string& message) {
  row.text = ErrorLine(row.id, kind, message);
  failed_ = true;
}

void IdsRun::Write(std::ostream& out) {
  while (!rows_.empty() && !rows_.front().text.empty() && rows_.front().missing == 0) {
    out << (terminal_ ? Visible(rows_.front().text) : rows_.front().text) << '\n';
    rows_.pop_front();
    ++first_row_;
  }
  out.flush();
}

}  // namespace banyan::app
