// Many questions over many documents: what `banyan ask` runs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "banyan/job.h"
#include "banyan/model.h"

namespace banyan {

enum class ChatUse { kAuto, kOn, kOff };  // auto: when the model has a chat template
// auto: letters where the model's card says that it chooses better by them, --choice-score is not
// set and they suffice; else scores.
enum class ChoiceMode { kAuto, kScore, kLetter };
// Score of an option: its log-probability per token; of the whole option; or of the whole option
// minus its log-probability without any document, which measures the document's support for it.
enum class ChoiceScore { kMean, kSum, kPrior };
enum class TooLong { kFail, kTruncate, kSplit };

inline constexpr const char* kDefaultInstruction =
    "Answer the question from the text. Answer briefly, with words from the text. If the text does "
    "not say, answer null.";

struct AskOptions {
  std::string instruction = kDefaultInstruction;  // a record's own is used instead
  // The user's message in a chat, or the whole prompt without one; {context}, {question},
  // {instruction}, {few_shot}, {choices}, {id} and every other field of the record are replaced,
  // {{ and }} are braces. Empty: the default.
  std::string prompt_template;
  std::string few_shot;  // the text of the block, or JSONL of {"context"?,"question","answer"}
  ChatUse chat = ChatUse::kAuto;
  bool thinking = false;  // for templates that have enable_thinking

  std::vector<std::string> question_list;  // asked of every document
  std::string questions;                   // text of a questions file, asked of every document
  std::string questions_name;              // its name, for messages

  int max_new = 64;
  std::vector<std::string> stop;
  // Constraint on free answers: a regular expression, or the text of a JSON Schema; empty: none.
  // docs/constraints.md has the syntax.
  std::string regex, json_schema;
  // Free answers are copied from the context, word for word, or null. Nothing: where the model's
  // card says that it copies (ModelCard::copies), unless regex, json_schema or thinking is there.
  std::optional<bool> copy;
  // Free answers with a lower confidence become null. Needs a calibration in the model's card; 0:
  // none do.
  double min_confidence = 0.0;
  SamplingOptions sampling;
  int samples = 1;
  bool vote = false;  // the answer is the most frequent of the samples
  ChoiceMode choices = ChoiceMode::kAuto;
  ChoiceScore choice_score = ChoiceScore::kSum;
  TooLong too_long = TooLong::kSplit;
  // With TooLong::kSplit: tokens of the document in a part, at most; 0: as many as fit.
  int part_tokens = 0;
  // With TooLong::kSplit: the model reads the passages around the parts' best answers together, and
  // answers once more.
  bool reduce = false;
  bool logprobs = false;
  int top_logprobs = 0;
  bool token_ids = false;
};

// The columns that CSV files need to be asked: for JobOptions::needed_columns.
std::vector<std::vector<std::string>> NeededColumns(const AskOptions& ask);

// Throws kUsage for what can be refused of the options before a model is loaded, as RunAsk does.
void CheckAsk(const EngineOptions& engine_options, const AskOptions& ask);

// The prompts of the job's first record, or of its first `job.limit` records, each after a line
// with its ids. Rows that cannot be asked contain the reason.
std::string ShowPrompts(std::shared_ptr<Model> model, const AskOptions& ask, const JobOptions& job);

// Throws Error for what stops the whole job: options, files, the disk, changed parameters. Rows
// that cannot be answered become error rows.
JobReceipt RunAsk(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                  const AskOptions& ask, const JobOptions& job);

// Reads and tokenises all of the input and answers its first records to measure the machine.
JobEstimate EstimateAsk(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                        const AskOptions& ask, const JobOptions& job);

}  // namespace banyan
