// Documents as the engine is given them: tokens, positions and slots, for whoever trains a model to
// write values this way (train/skeleton_data.py).
#include <utility>

#include "base/error.h"
#include "base/json_row.h"
#include "tasks/extract/extract_work.h"
#include "tasks/job/job.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Segments below the prompt, the pieces of the template: each is the only one under the one above.
OrderedJson SlotsOf(const PromptSegment& first, std::int64_t position) {
  OrderedJson slots = OrderedJson::array();
  for (const PromptSegment* piece = &first; piece != nullptr;
       piece = piece->below.empty() ? nullptr : &piece->below.front()) {
    position = piece->first_position.value_or(static_cast<std::int32_t>(position));
    slots.push_back({{"tokens", piece->tokens},
                     {"position", position},
                     {"max_tokens", piece->answers.front().max_new}});
    position += static_cast<std::int64_t>(piece->tokens.size());
  }
  return slots;
}

}  // namespace

// What NextPrompts hands to the engine, and the texts that its slots stand for. A schema that is
// divided has several templates: the slots of each begin at the prompt's end.
std::string ExtractWork::Layout() {
  const std::vector<PromptSegment> prompts = NextPrompts();
  if (prompts.size() != 1) {
    Throw(ErrorKind::kLimit, "--layout: the document does not fit the model's context in one part");
  }
  OrderedJson row = {{"id", records_.front().id}, {"prompt", parts_.front().prompt.tokens}};
  if (records_.size() > 1) {
    for (const ExtractRecord& record : records_) row["ids"] += OrderedJson(record.id);
  }
  row["slots"] = OrderedJson::array();
  const PromptSegment& document = prompts.front().below.front();
  const auto end = static_cast<std::int64_t>(parts_.front().prompt.tokens.size());
  for (const PromptSegment& first : document.below) {
    for (OrderedJson& slot : SlotsOf(first, end)) row["slots"].push_back(std::move(slot));
  }
  row["together"] = document.below.front().skeleton;
  OrderedJson& pieces = row["pieces"] = OrderedJson::array();
  for (size_t i = 0; i < slots(); ++i) {
    OrderedJson piece = {{"name", plan_.leaves[i % leaves()].name},
                         {"text", plan_.slots[i].piece},
                         {"rest", plan_.slots[i].rest}};
    if (records_.size() > 1) piece["document"] = i / leaves();
    pieces.push_back(std::move(piece));
  }
  return DumpJson(row);
}

void WriteExtractLayouts(std::shared_ptr<Model> model, const ExtractOptions& extract,
                         const JobOptions& job,
                         const std::function<void(const std::string&)>& write) {
  const JobOptions documents = OfDocuments(job);
  CheckJob(documents);
  ExtractTask task(std::move(model), extract);
  InputReader input(InputOf(documents));
  std::vector<InputRow> stack;
  InputRow row;
  for (std::int64_t read = 0; (job.limit < 0 || read < job.limit) && input.Next(row); ++read) {
    if (row.problem) throw Error(row.problem->kind, row.problem->message);
    const bool full = stack.size() == static_cast<size_t>(extract.stack) ||
                      (!stack.empty() && task.StackName(row) != task.StackName(stack.front()));
    if (full) {
      for (const std::string& line : task.Layouts(stack)) write(line);
      stack.clear();
    }
    stack.push_back(row);
  }
  if (stack.empty()) return;
  for (const std::string& line : task.Layouts(stack)) write(line);
}

}  // namespace banyan
