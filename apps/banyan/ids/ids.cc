// banyan ids: the engine on tokens, for testing and for porting models. One JSON object per line
// in, one per line out, in the order of the input; a bad line gives an error row and the others go
// on.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "banyan/encoder.h"
#include "banyan/engine.h"
#include "banyan/error.h"
#include "banyan/model.h"
#include "banyan/text.h"
#include "ids/ids_kinds.h"
#include "ids/ids_lines.h"
#include "job/job_options.h"
#include "program.h"
#include "program/message_text.h"
#include "shell/help.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

// The lines through engine, encoder and tokenizer.
class IdsRun {
 public:
  // A decoder or an encoder or neither, and a tokenizer or none.
  struct Models {
    std::shared_ptr<Model> decoder;
    std::shared_ptr<Encoder> encoder;
    std::shared_ptr<const Text> text;
  };
  IdsRun(const Models& models, const RunOptions& options)
      : tokenizer_(models.text),
        explain_(options.explain),
        terminal_(::isatty(STDOUT_FILENO) == 1) {
    EngineOptions engine = options.engine;
    if (engine.mixed_rows == 0) engine.mixed_rows = -1;  // only the end counts
    if (models.decoder) engine_ = std::make_unique<Engine>(models.decoder, engine);
    if (models.encoder) encoder_ = std::make_unique<IdsEncoder>(models.encoder, engine);
  }

  // Reads everything, decodes it together, writes rows in order. Returns the exit code.
  int Run(std::istream& in, std::ostream& out);

 private:
  using PromptOf = IdsPrompt (*)(const Json& line, const TagAnswer& tag);
  // Where an answer belongs.
  struct Place {
    size_t row = 0, context = 0, question = 0;
  };

  void Read(const std::string& line, std::int64_t number);
  // The row never reached the engine: no answers will come.
  void Refuse(IdsRow& row, ErrorKind kind, const std::string& message);
  Engine& NeedEngine();
  IdsEncoder& NeedEncoder();

  // Starts the work of a line; the row is rows_.back().
  void Start(const Json& json);
  void Submit(const Json& json, PromptOf prompt_of);
  size_t last_row() const { return first_row_ + rows_.size() - 1; }

  void Collect();  // finished answers of the engine
  void Encode();   // what waits for the encoder
  void Fail(IdsRow& row, ErrorKind kind, const std::string& message);
  // Writes rows in order, as soon as all before them are done.
  void Write(std::ostream& out);

  IdsTokenizer tokenizer_;
  bool explain_;
  bool terminal_;                        // control characters are made visible
  std::unique_ptr<Engine> engine_;       // null without a decoder
  std::unique_ptr<IdsEncoder> encoder_;  // null without an encoder
  std::deque<IdsRow> rows_;
  size_t first_row_ = 0;  // number of rows_.front()
  std::map<std::uint64_t, Place> places_;
  std::uint64_t next_tag_ = 0;
  bool failed_ = false;
};

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
    if (encoder_ && encoder_->full()) Encode();
    Write(out);
  }
  if (encoder_) Encode();
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
  static const std::map<std::string, PromptOf> prompts = {{"logits", LogitsPrompt},
                                                          {"greedy", GreedyPrompt},
                                                          {"stacked", StackedPrompt},
                                                          {"experts", ExpertsPrompt},
                                                          {"skeleton", SkeletonPrompt}};
  IdsRow& row = rows_.back();
  const std::string& kind = row.kind;
  if (const auto found = prompts.find(kind); found != prompts.end()) {
    return Submit(json, found->second);
  }
  if (kind == "embed" || kind == "rerank") {
    IdsEncoder& encoder = NeedEncoder();
    std::vector<TokenId> ids = TokenList(Field(json, "ids"), "ids");
    kind == "embed" ? encoder.AddEmbed(last_row(), std::move(ids))
                    : encoder.AddRerank(last_row(), std::move(ids));
    row.missing = 1;
    return;
  }
  if (kind == "tokenize") {
    row.text = tokenizer_.Tokenize(json, row.id);
  } else if (kind == "detokenize") {
    row.text = tokenizer_.Detokenize(json, row.id);
  } else if (kind == "chat") {
    row.text = tokenizer_.Chat(json, row.id);
  } else if (kind == "mask") {
    row.text = tokenizer_.Mask(json, row.id);
  } else {
    BadInput(fmt::format(
        "unknown kind '{}': expected logits, greedy, stacked, skeleton, experts, embed, rerank, "
        "tokenize, detokenize, chat or mask",
        kind));
  }
}

void IdsRun::Submit(const Json& json, PromptOf prompt_of) {
  Engine& engine = NeedEngine();
  IdsPrompt prompt = prompt_of(json, [this](size_t context, size_t question) {
    const std::uint64_t tag = next_tag_++;
    places_[tag] = {last_row(), context, question};
    return tag;
  });
  engine.Submit(std::move(prompt.root));
  IdsRow& row = rows_.back();
  for (const size_t questions : prompt.answers) {
    row.answers.emplace_back(questions);
    row.missing += static_cast<int>(questions);
  }
  if (row.missing == 0) row.text = AnswersLine(row);
}

Engine& IdsRun::NeedEngine() {
  if (encoder_) {
    throw Error(ErrorKind::kUnsupported,
                "this kind needs a model that writes text; the model is an encoder");
  }
  if (!engine_) BadInput("this kind needs a model: give one with -m");
  return *engine_;
}

IdsEncoder& IdsRun::NeedEncoder() {
  if (engine_) {
    throw Error(ErrorKind::kUnsupported,
                "this kind needs an encoder (BERT, XLM-R); the model is one that writes text");
  }
  if (!encoder_) BadInput("this kind needs a model: give one with -m");
  return *encoder_;
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
    if (--row.missing == 0 && row.text.empty()) row.text = AnswersLine(row);
  }
}

void IdsRun::Encode() {
  for (const auto& [number, fields] : encoder_->Take()) {
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
  std::ifstream file;
  if (options.input != "-") file.open(options.input);
  if (options.input != "-" && !file) {
    throw Error(ErrorKind::kNotFound, fmt::format("{}: cannot open the input file", options.input));
  }
  IdsRun::Models models;
  if (!options.run.load.model.empty()) {
    options.run.Bring(/*quiet=*/false);
    if (Encoder::IsEncoder(options.run.load.model)) {
      models.encoder = options.run.LoadEncoder(false);
      models.text = models.encoder->text();
    } else {
      models.decoder = options.run.LoadModel(false);
      models.text = models.decoder->text();
    }
  }
  if (!options.tokenizer.empty()) models.text = Text::Load(options.tokenizer);
  IdsRun run(models, options.run);
  std::ios::sync_with_stdio(false);
  return run.Run(options.input == "-" ? std::cin : file, std::cout);
}

}  // namespace

Command AddIds(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("ids", "Run the engine on token ids, one JSON object per line: for tests");
  command->footer(
      R"(Kinds of input lines (each with "id" and "kind"; output lines carry the same id):
  {"kind":"logits","ids":[…]}                                   -> "last_logits"
  {"kind":"greedy","ids":[…],"max_new":N,"stop":T or [T…]}      -> "tokens"
  {"kind":"stacked","p":[…],"contexts":[{"c":[…],"questions":[{"x":[…]}]}],"max_new":N,"stop":T}
                                                                -> "answers"
  {"kind":"experts","system":[…],"documents":[[…]],"question":[…],"r":[…],"gamma":2.5,
   "beta":"expert"|"shared"|B,"rule":"max"|"mixture"|"product"}  -> "tokens", "expert", "betas"
      "scores":"raw"|"normalised", "plausibility":A; "abstention":P with "null":[T…] -> "abstentions"
  {"kind":"skeleton","prompt":[…],"attributes":[[…]…],"kmax":N or [N…],"stop":T}  -> "values"
      "isolated":true: values do not see one another, and with "gap":0 there is no room between
  {"kind":"embed","ids":[…]}                                    -> "dense", "sparse", "colbert"
  {"kind":"rerank","ids":[…]}                                   -> "logit"
  {"kind":"tokenize","text":"…","add_special":false}            -> "ids"
  {"kind":"detokenize","ids":[…]}                               -> "text"
  {"kind":"mask","regex":"…","ids":[…]}                         -> "allowed", "sha256", "end"
      what may follow the tokens: how many, a hash of their ids, the text's end; "tokens" when they
      are few; "schema":"…" (JSON Schema as text) in place of "regex"
  {"kind":"chat","messages":[…],"add_generation_prompt":true,"extra":{}} -> "text"
"logprobs":true adds log-probabilities; temperature, top_k, top_p, min_p, repetition_penalty and
seed turn greedy into sampling. Exit code 0: all lines answered, 1: some were bad, 2: none were read.)");
  auto options = std::make_shared<IdsOptions>();
  options->run.comparisons = true;
  options->run.AddTo(*command, "f32");
  command->add_option("--tokenizer", options->tokenizer,
                      "tokenizer.json, its directory, or a GGUF file, for the text kinds");
  command->add_option("input", options->input, "JSONL file; - for standard input")
      ->capture_default_str();
  SetFirstOptions(*command,
                  {{"Model", {"--model", "--tokenizer", "--device", "--precision", "--threads"}},
                   {"Engine", {"--strategy", "--max-streams", "--explain"}},
                   {"Comparisons",
                    {"--share-levels", "--contexts-per-stack", "--questions-per-stack", "--stacks",
                     "--private-stacks", "--mixed-rows", "--steps-ahead", "--no-measure-costs",
                     "--no-replay", "--one-by-one"}},
                   {"Help", {"--help", "--help-all"}}});
  return [options] { return RunIds(*options); };
}

}  // namespace banyan::app
