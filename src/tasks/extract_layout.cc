// Documents as the engine is given them: tokens, positions and slots, for whoever trains a model to
// write values this way (train/skeleton_data.py).
#include <utility>

#include "base/error.h"
#include "base/json_row.h"
#include "tasks/extract_work.h"
#include "tasks/job.h"

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

// What NextPrompts hands to the engine, and the texts that its slots stand for.
std::string ExtractWork::Layout() {
  const std::vector<PromptSegment> prompts = NextPrompts();
  BANYAN_CHECK(prompts.size() == 1);
  OrderedJson row = {{"id", records_.front().id}, {"prompt", OrderedJson::array()}};
  const PromptSegment* segment = &prompts.front();
  for (; segment->answers.empty(); segment = &segment->below.front()) {
    for (const TokenId token : segment->tokens) row["prompt"].push_back(token);
  }
  row["slots"] = SlotsOf(*segment, prompt_tokens_);
  row["together"] = segment->skeleton;
  OrderedJson& pieces = row["pieces"] = OrderedJson::array();
  for (size_t i = 0; i < slots(); ++i) {
    pieces.push_back({{"name", plan_.category->attributes[i].name},
                      {"text", plan_.slots[i].piece},
                      {"rest", plan_.slots[i].rest}});
  }
  return DumpJson(row);
}

void WriteExtractLayouts(std::shared_ptr<Model> model, const ExtractOptions& extract,
                         const JobOptions& job,
                         const std::function<void(const std::string&)>& write) {
  const JobOptions documents = OfDocuments(job);
  CheckJob(documents);
  if (extract.stack > 1) {
    Throw(ErrorKind::kUsage, "--layout: expected --stack 1, found {}", extract.stack);
  }
  ExtractTask task(std::move(model), extract);
  InputReader input(InputOf(documents));
  InputRow row;
  for (std::int64_t read = 0; job.limit < 0 || read < job.limit; ++read) {
    if (!input.Next(row)) return;
    if (row.problem) throw Error(row.problem->kind, row.problem->message);
    write(task.Layout(row));
  }
}

}  // namespace banyan
