// banyan ids: the engine on tokens, for testing and for porting models. One JSON object per line
// in, one per line out, in the order of the input; a bad line gives an error row and the others go
// on.
#include <fmt/format.h>

#include <cmath>
#include <deque>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "banyan/error.h"
#include "banyan/model.h"
#include "banyan/text.h"
#include "commands.h"
#include "ids_fields.h"
#include "run_options.h"

namespace banyan::app {
namespace {

// --- Writing a line ------------------------------------------------------------------------------

// Shortest decimals that read back as the same float32; JSON has no infinities.
std::string FloatsText(const std::vector<float>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ',';
    text += std::isfinite(values[i]) ? fmt::format("{}", values[i]) : "null";
  }
  return text + "]";
}

std::string TokensText(const std::vector<TokenId>& tokens) {
  return fmt::format("[{}]", fmt::join(tokens, ","));
}

std::string ErrorRow(const std::string& id, const std::string& kind, const std::string& message) {
  const Json error = {{"kind", kind}, {"message", message}};
  return fmt::format("{{\"id\":{},\"error\":{}}}", id,
                     error.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// --- One line of input and what it waits for
// ------------------------------------------------------

struct Row {
  std::string id = "null";      // as JSON
  std::uint64_t first_tag = 0;  // of its answers
  std::string kind;
  bool logprobs = false;
  std::vector<std::vector<Answer>> answers;  // [contexts][questions]; one of each unless stacked
  int missing = 0;                           // answers not there yet
  std::string text;                          // the output line, when done
};

// Where an answer belongs.
struct Place {
  size_t row = 0, context = 0, question = 0;
};

class IdsRun {
 public:
  IdsRun(std::shared_ptr<Model> model, std::shared_ptr<const Text> text, const RunOptions& options)
      : model_(std::move(model)), text_(std::move(text)), explain_(options.explain) {
    if (model_) engine_ = std::make_unique<Engine>(model_, options.engine);
  }

  // Reads everything, decodes it together, writes rows in order. Returns the exit code.
  int Run(std::istream& in, std::ostream& out) {
    std::string line;
    std::int64_t number = 0;
    while (std::getline(in, line)) {
      ++number;
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      rows_.emplace_back();
      Read(line, number);
      while (engine_ && engine_->waiting() > 4 * engine_->wanted_waiting() && engine_->Step())
        Collect();
      Write(out);
    }
    if (engine_ && explain_) std::cerr << engine_->Explain();
    while (engine_ && engine_->Step()) {
      Collect();
      Write(out);
    }
    Collect();
    Write(out);
    return failed_ ? 1 : 0;
  }

 private:
  void Read(const std::string& line, std::int64_t number) {
    Row& row = rows_.back();
    row.first_tag = next_tag_;
    try {
      Json json;
      try {
        json = Json::parse(line);
      } catch (const Json::exception&) {
        BadInput(fmt::format("line {}: not valid JSON", number));
      }
      if (!json.is_object()) {
        BadInput(fmt::format("line {}: expected an object, found {}", number, json.type_name()));
      }
      if (json.contains("id")) {
        row.id = json.at("id").dump(-1, ' ', false, Json::error_handler_t::replace);
      }
      row.kind = StringField(json, "kind");
      row.logprobs = json.value("logprobs", false);
      Start(json);
    } catch (const Error& e) {
      Refuse(row, e.kind(), e.what());
    } catch (const Json::exception& e) {
      Refuse(row, ErrorKind::kInput, e.what());
    }
  }

  // The row never reached the engine: nothing is to come.
  void Refuse(Row& row, ErrorKind kind, const std::string& message) {
    places_.erase(places_.lower_bound(row.first_tag), places_.end());
    row.missing = 0;
    Fail(row, kind, message);
  }

  void Start(const Json& json) {
    Row& row = rows_.back();
    const std::string& kind = row.kind;
    if (kind == "logits") return StartLogits(json);
    if (kind == "greedy") return StartGreedy(json);
    if (kind == "stacked") return StartStacked(json);
    if (kind == "tokenize") return Tokenize(json);
    if (kind == "detokenize") return Detokenize(json);
    if (kind == "chat") return Chat(json);
    if (kind == "skeleton" || kind == "experts" || kind == "embed" || kind == "rerank") {
      throw Error(ErrorKind::kUnsupported, fmt::format("kind '{}' is not built yet", kind));
    }
    BadInput(
        fmt::format("unknown kind '{}': expected logits, greedy, stacked, tokenize, detokenize "
                    "or chat",
                    kind));
  }

  Engine& NeedEngine() {
    if (!engine_) BadInput("this kind needs a model: give one with -m");
    return *engine_;
  }
  const Text& NeedText() {
    if (!text_)
      BadInput("this kind needs a tokenizer: the model has none, give one with --tokenizer");
    return *text_;
  }

  std::uint64_t NewTag(const Place& place) {
    const std::uint64_t tag = next_tag_++;
    places_[tag] = place;
    return tag;
  }

  void StartLogits(const Json& json) {
    Engine& engine = NeedEngine();
    PromptSegment prompt;
    prompt.tokens = TokenList(Field(json, "ids"), "ids");
    AnswerRequest answer;
    answer.max_new = 0;
    answer.want_logits = true;
    Submit(engine, std::move(prompt), {std::move(answer)});
  }

  void StartGreedy(const Json& json) {
    Engine& engine = NeedEngine();
    PromptSegment prompt;
    prompt.tokens = TokenList(Field(json, "ids"), "ids");
    Submit(engine, std::move(prompt), {AnswerFields(json)});
  }

  void Submit(Engine& engine, PromptSegment prompt, AnswerRequest answer) {
    Row& row = rows_.back();
    row.answers.assign(1, std::vector<Answer>(1));
    row.missing = 1;
    answer.tag = NewTag({first_row_ + rows_.size() - 1, 0, 0});
    prompt.answers.push_back(std::move(answer));
    engine.Submit(std::move(prompt));
  }

  void StartStacked(const Json& json) {
    Engine& engine = NeedEngine();
    Row& row = rows_.back();
    const AnswerRequest wanted = AnswerFields(json);
    PromptSegment root;
    root.tokens = TokenList(Field(json, "p"), "p");
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

  void Tokenize(const Json& json) {
    const bool add_special = json.value("add_special", false);
    const std::vector<TokenId> ids =
        NeedText().Encode(StringField(json, "text"), add_special, /*parse_special=*/true);
    rows_.back().text = fmt::format("{{\"id\":{},\"ids\":{}}}", rows_.back().id, TokensText(ids));
  }

  void Detokenize(const Json& json) {
    WriteText(NeedText().Decode(TokenList(Field(json, "ids"), "ids"), /*skip_special=*/false));
  }

  void Chat(const Json& json) {
    const std::string extra = json.contains("extra") ? json.at("extra").dump() : "";
    std::string text;
    for (const ChatText& piece : NeedText().RenderChat(
             Field(json, "messages").dump(), json.value("add_generation_prompt", false), extra)) {
      text += piece.text;
    }
    WriteText(text);
  }

  void WriteText(const std::string& text) {
    Row& row = rows_.back();
    row.text = fmt::format("{{\"id\":{},\"text\":{}}}", row.id,
                           Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  void Collect() {
    if (!engine_) return;
    for (Answer& answer : engine_->TakeFinished()) {
      const auto place = places_.extract(answer.tag).mapped();
      Row& row = rows_[place.row - first_row_];
      if (answer.finish == FinishReason::kError && row.text.empty()) {
        Fail(row, ErrorKind::kLimit, answer.error);
      }
      row.answers[place.context][place.question] = std::move(answer);
      if (--row.missing == 0 && row.text.empty()) Finish(row);
    }
  }

  void Finish(Row& row) { row.text = fmt::format("{{\"id\":{},{}}}", row.id, Result(row)); }

  std::string Result(const Row& row) const {
    if (row.kind == "logits") {
      return "\"last_logits\":" + FloatsText(row.answers[0][0].prompt_logits);
    }
    if (row.kind == "greedy") {
      const Answer& answer = row.answers[0][0];
      std::string text = "\"tokens\":" + TokensText(answer.tokens);
      if (row.logprobs) text += ",\"logprobs\":" + FloatsText(answer.logprobs);
      return text;
    }
    std::vector<std::string> tokens, logprobs;
    for (const std::vector<Answer>& context : row.answers) {
      std::vector<std::string> token_lists, logprob_lists;
      for (const Answer& answer : context) {
        token_lists.push_back(TokensText(answer.tokens));
        logprob_lists.push_back(FloatsText(answer.logprobs));
      }
      tokens.push_back(fmt::format("[{}]", fmt::join(token_lists, ",")));
      logprobs.push_back(fmt::format("[{}]", fmt::join(logprob_lists, ",")));
    }
    std::string text = fmt::format("\"answers\":[{}]", fmt::join(tokens, ","));
    if (row.logprobs) text += fmt::format(",\"logprobs\":[{}]", fmt::join(logprobs, ","));
    return text;
  }

  void Fail(Row& row, ErrorKind kind, const std::string& message) {
    row.text = ErrorRow(row.id, ErrorKindName(kind), message);
    failed_ = true;
  }

  // Rows leave in order, as soon as all before them are done.
  void Write(std::ostream& out) {
    while (!rows_.empty() && !rows_.front().text.empty() && rows_.front().missing == 0) {
      out << rows_.front().text << '\n';
      rows_.pop_front();
      ++first_row_;
    }
    out.flush();
  }

  std::shared_ptr<Model> model_;
  std::shared_ptr<const Text> text_;
  bool explain_;
  std::unique_ptr<Engine> engine_;
  std::deque<Row> rows_;
  size_t first_row_ = 0;  // number of rows_.front()
  std::map<std::uint64_t, Place> places_;
  std::uint64_t next_tag_ = 0;
  bool failed_ = false;
};

struct IdsOptions {
  RunOptions run;
  std::string tokenizer;
  std::string input = "-";
};

int RunIds(IdsOptions& options) {
  options.run.Resolve();
  if (options.run.load.model.empty() && options.tokenizer.empty()) {
    throw Error(ErrorKind::kUsage, "ids: expected a model (-m) or a tokenizer (--tokenizer)");
  }
  std::shared_ptr<Model> model;
  std::shared_ptr<const Text> text;
  if (!options.run.load.model.empty()) {
    model = options.run.LoadModel(false);
    text = model->text();
  }
  if (!options.tokenizer.empty()) text = Text::Load(options.tokenizer);
  IdsRun run(model, text, options.run);
  std::ios::sync_with_stdio(false);
  if (options.input == "-") return run.Run(std::cin, std::cout);
  std::ifstream file(options.input);
  if (!file) {
    throw Error(ErrorKind::kNotFound, fmt::format("{}: cannot open the input file", options.input));
  }
  return run.Run(file, std::cout);
}

}  // namespace

Command AddIds(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "ids", "Run the engine on token ids, one JSON object per line (for testing and porting)");
  command->footer(
      R"(Kinds of input lines (each with "id" and "kind"; output lines carry the same id):
  {"kind":"logits","ids":[…]}                                   -> "last_logits"
  {"kind":"greedy","ids":[…],"max_new":N,"stop":T or [T…]}      -> "tokens"
  {"kind":"stacked","p":[…],"contexts":[{"c":[…],"questions":[{"x":[…]}]}],"max_new":N,"stop":T}
                                                                -> "answers"
  {"kind":"tokenize","text":"…","add_special":false}            -> "ids"
  {"kind":"detokenize","ids":[…]}                               -> "text"
  {"kind":"chat","messages":[…],"add_generation_prompt":true,"extra":{}} -> "text"
"logprobs":true adds log-probabilities; temperature, top_k, top_p, min_p, repetition_penalty and
seed turn greedy into sampling. Exit code 0: all lines answered, 1: some were bad, 2: none were read.)");
  auto options = std::make_shared<IdsOptions>();
  options->run.AddTo(*command, "f32");
  command->add_option("--tokenizer", options->tokenizer,
                      "tokenizer.json, its directory, or a GGUF file, for the text kinds");
  command->add_option("input", options->input, "JSONL file; - for standard input")
      ->capture_default_str();
  return [options] { return RunIds(*options); };
}

}  // namespace banyan::app
