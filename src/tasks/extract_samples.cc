#include "tasks/extract_samples.h"

#include <fmt/format.h>

#include <deque>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "tasks/extract_task.h"
#include "tasks/job.h"
#include "tasks/row_adapter.h"
#include "values/value_text.h"

namespace banyan {
namespace {

constexpr int kSampleTagBits = 24;  // of a document's own tags

// Why a row is no sample; empty: it is one.
std::string Unfit(const InputRow& row, std::set<std::string>& texts) {
  if (row.problem) return row.problem->message;
  const auto text = row.value.find("text");
  if (text == row.value.end() || !text->is_string()) return "it has no field 'text'";
  const std::string plain = PlainText(text->get<std::string>());
  if (FoldedWords(plain).empty()) return "it has no words";
  if (!texts.insert(plain).second) return "its text came before";
  return "";
}

void RaiseTags(PromptSegment& segment, std::uint64_t bits) {
  for (AnswerRequest& answer : segment.answers) {
    BANYAN_CHECK(answer.tag >> kSampleTagBits == 0);
    answer.tag |= bits;
  }
  for (PromptSegment& below : segment.below) RaiseTags(below, bits);
}

size_t AnswersIn(const PromptSegment& segment) {
  size_t answers = segment.answers.size();
  for (const PromptSegment& below : segment.below) answers += AnswersIn(below);
  return answers;
}

struct SampleWork {
  std::unique_ptr<RecordWork> work;  // null: it could not be started
  std::string adapter;
  size_t missing = 0;  // answers
  OutputRow row;
};

// Documents that are asked about until none asks any more.
class SampleJob {
 public:
  SampleJob(std::shared_ptr<Model> model, const EngineOptions& engine_options, ExtractTask& task,
            const std::vector<InputRow>& samples)
      : engine_(model, engine_options), works_(samples.size()) {
    for (size_t i = 0; i < samples.size(); ++i) {
      try {
        works_[i].adapter = AdapterOfRow(samples[i], *model);
        works_[i].work = task.Start(samples[i]);
      } catch (const Error& error) {
        works_[i].row = task.ErrorRow(samples[i], {error.kind(), error.what()});
        continue;
      }
      Advance(i);
    }
  }

  std::vector<nlohmann::ordered_json> Run() {
    while (true) {
      while (!waiting_.empty() && Submit()) {
      }
      const bool working = engine_.Step();
      for (Answer& answer : engine_.TakeFinished()) Take(std::move(answer));
      if (!working && waiting_.empty()) break;
    }
    std::vector<nlohmann::ordered_json> rows;
    for (SampleWork& sample : works_) {
      if (sample.work) sample.row = std::move(sample.work->Rows().front());
      rows.push_back(std::move(sample.row.fields));
    }
    return rows;
  }

 private:
  void Advance(size_t number) {
    SampleWork& sample = works_[number];
    std::vector<PromptSegment> prompts;
    try {
      prompts = sample.work->NextPrompts();
    } catch (const Error& error) {
      sample.work->Refuse(error);
    }
    for (PromptSegment& prompt : prompts) {
      prompt.adapter = sample.adapter;
      RaiseTags(prompt, static_cast<std::uint64_t>(number) << kSampleTagBits);
      sample.missing += AnswersIn(prompt);
      waiting_.emplace_back(number, std::move(prompt));
    }
  }

  // False when the engine has enough for now.
  bool Submit() {
    auto& [number, prompt] = waiting_.front();
    SampleWork& sample = works_[number];
    const size_t answers = AnswersIn(prompt);
    try {
      if (!engine_.TrySubmit(prompt)) return false;
    } catch (const Error& error) {
      sample.work->Refuse(error);
      sample.missing -= answers;
    }
    waiting_.pop_front();
    return true;
  }

  void Take(Answer answer) {
    const auto number = static_cast<size_t>(answer.tag >> kSampleTagBits);
    answer.tag &= (std::uint64_t{1} << kSampleTagBits) - 1;
    works_[number].work->Take(std::move(answer));
    if (--works_[number].missing == 0) Advance(number);
  }

  Engine engine_;
  std::vector<SampleWork> works_;
  std::deque<std::pair<size_t, PromptSegment>> waiting_;
};

}  // namespace

std::vector<InputRow> ReadSamples(const JobOptions& job, size_t least, size_t most) {
  InputReader input(InputOf(OfDocuments(job)));
  std::vector<InputRow> samples;
  std::set<std::string> texts;
  InputRow row;
  while (samples.size() < most && input.Next(row)) {
    const std::string reason = Unfit(row, texts);
    if (reason.empty()) {
      samples.push_back(std::move(row));
    } else if (job.notice) {
      const std::string line = row.line > 0 ? fmt::format(" line {}", row.line) : "";
      job.notice(fmt::format("extract schema: {}{}: left out: {}", row.file, line, reason));
    }
    row = {};
  }
  if (samples.size() < least) {
    Throw(ErrorKind::kUsage,
          "extract schema: expected at least {} different documents with words, found {}", least,
          samples.size());
  }
  return samples;
}

std::vector<nlohmann::ordered_json> ExtractSamples(std::shared_ptr<Model> model,
                                                   const EngineOptions& engine_options,
                                                   const ExtractOptions& extract,
                                                   const std::vector<InputRow>& samples) {
  ExtractTask task(model, extract);
  return SampleJob(model, engine_options, task, samples).Run();
}

}  // namespace banyan
