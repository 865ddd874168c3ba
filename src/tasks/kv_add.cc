// Adds documents to a KV store: the task's own prompts without their questions are computed for
// their keys and values alone.
#include "program/kv.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "engine/memory/engine_memory.h"
#include "load/model_parts.h"
#include "store/store_parts.h"
#include "tasks/ask/ask_task.h"
#include "tasks/job/job.h"
#include "tasks/rag/rag_task.h"

namespace banyan {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kBetweenReports = 0.2;

// A placeholder: the tokens before a question do not depend on it.
constexpr const char* kAnyQuestion = "?";

// Removes all segments but those to keep and those above them; the last ones get an answer of no
// tokens. Returns how many these are.
int OnlyKept(PromptSegment& segment) {
  segment.answers.clear();
  segment.experts.clear();
  int last = 0;
  std::erase_if(segment.below, [&last](PromptSegment& child) {
    const int below = OnlyKept(child);
    last += below;
    return below == 0;
  });
  if (last > 0 || segment.keep_as.empty()) return last;
  segment.answers.emplace_back().max_new = 0;
  return 1;
}

// Where layers keep states, the last token of a prompt is a node of its own (request_tree.h): it
// must not be one of the document's.
void EndWithAnotherToken(PromptSegment& segment) {
  for (PromptSegment& child : segment.below) EndWithAnotherToken(child);
  if (segment.answers.empty()) return;
  PromptSegment last;
  last.tokens = {segment.tokens.back()};
  last.answers = std::exchange(segment.answers, {});
  segment.below.push_back(std::move(last));
}

class KvAdder {
 public:
  KvAdder(std::shared_ptr<Model> model, const EngineOptions& engine_options,
          const KvAddOptions& options)
      : model_(std::move(model)),
        options_(options),
        store_(engine_options.kv_store),
        stored_type_(store_->parts().StoredType(model_->parts().kernels->page_type())),
        piece_cuts_(static_cast<size_t>(PieceCuts(model_->parts()))),
        engine_(model_, ForAdding(engine_options)) {}

  KvAddReceipt Run() {
    if (options_.for_rag) {
      RunRagDocuments();
    } else {
      AskOptions ask = options_.ask;
      ask.copy = false;  // nothing is answered
      if (ask.question_list.empty()) ask.question_list = {kAnyQuestion};
      AskTask task(model_, ask);
      AddRows(task);
    }
    while (engine_.Step()) TakeEnds();
    TakeEnds();
    store_->Finish();
    const KvStore::Parts::SavedTotals saved = store_->parts().saved();
    receipt_.tokens = saved.tokens;
    receipt_.bytes = saved.bytes;
    receipt_.segments = saved.segments;
    receipt_.key_loss = saved.loss.OfKeys();
    receipt_.value_loss = saved.loss.OfValues();
    receipt_.computed_tokens = engine_.receipt().prefilled_tokens;
    receipt_.seconds = Seconds();
    if (options_.pin) PinAll();
    Report(/*last=*/true);
    return receipt_;
  }

 private:
  static EngineOptions ForAdding(EngineOptions options) {
    options.kv_save = true;
    options.mixed_rows = -1;
    return options;
  }

  void RunRagDocuments() {
    RagOptions rag = options_.rag;
    RagTask task(model_, rag);
    if (!rag.index) return AddRows(task);
    const RagPrompt prompt(model_->text(), rag, rag.instruction);
    const std::int64_t count = rag.index->size();
    for (std::int64_t i = 0; i < count && !Stopped(); ++i) {
      if (options_.job.limit >= 0 && i >= options_.job.limit) break;
      const Passage& passage = rag.index->at(static_cast<std::int32_t>(i));
      try {
        AddText(prompt, passage.title.empty() ? passage.text : passage.title + "\n" + passage.text,
                passage.id);
      } catch (const Error& error) {
        if (!store_->parts().saving()) throw;  // the store's, not the passage's
        Fail(fmt::format("{}: {}", passage.id, error.what()));
      }
      fraction_ = static_cast<double>(i + 1) / static_cast<double>(count);
    }
  }

  // A document alone, for rag.
  void AddText(const RagPrompt& prompt, const std::string& text, const std::string& label) {
    RagSegments segments = prompt.Encode(text, kAnyQuestion);
    PromptSegment root;
    root.tokens = std::move(segments.system);
    root.keep_as = "system";
    PromptSegment& document = root.below.emplace_back();
    document.tokens = std::move(segments.document);
    document.keep_as = label;
    std::vector<PromptSegment> prompts;
    prompts.push_back(std::move(root));
    Submit(std::move(prompts));
  }

  void AddRows(Task& task) {
    JobOptions job = options_.job;
    if (options_.for_rag) {
      job.document_field = "text";
      job.other_document_field.clear();
    }
    InputReader input(InputOf(job));
    const RagPrompt prompt(model_->text(), options_.rag, options_.rag.instruction);
    InputRow row;
    for (std::int64_t read = 0; (job.limit < 0 || read < job.limit) && !Stopped(); ++read) {
      if (!input.Next(row)) break;
      if (input.total_bytes() > 0) {
        fraction_ =
            static_cast<double>(row.input_position) / static_cast<double>(input.total_bytes());
      }
      try {
        if (row.problem) throw Error(row.problem->kind, row.problem->message);
        const auto text = row.value.find("text");
        if (options_.for_rag && text != row.value.end() && text->is_string()) {
          const std::string title = row.value.value("title", "");
          AddText(prompt, (title.empty() ? "" : title + "\n") + text->get<std::string>(),
                  LabelOf(row.value));
          continue;
        }
        const std::unique_ptr<RecordWork> work = task.Start(row);
        std::vector<PromptSegment> prompts = work->NextPrompts();
        if (prompts.empty()) ThrowProblemOf(*work);
        Submit(std::move(prompts));
      } catch (const std::exception& error) {
        if (!store_->parts().saving()) throw;  // the store's, not the row's
        Fail(row.line > 0 ? fmt::format("{} line {}: {}", row.file, row.line, error.what())
                          : fmt::format("{}: {}", row.file, error.what()));
      }
    }
  }

  static std::string LabelOf(const Json& row) {
    const auto id = row.find("id");
    if (id == row.end()) return "document";
    return id->is_string() ? id->get<std::string>() : DumpJson(*id);
  }

  [[noreturn]] static void ThrowProblemOf(RecordWork& work) {
    for (const OutputRow& row : work.Rows()) {
      if (row.error) throw Error(ErrorKind::kInput, row.error_message());
    }
    throw Error(ErrorKind::kInput, "there is nothing to add");
  }

  void Submit(std::vector<PromptSegment> prompts) {
    for (PromptSegment& prompt : prompts) {
      const int documents = OnlyKept(prompt);
      if (documents == 0) continue;
      if (IsThere(prompt, {model_->parts().variants.front().kv_name, 0, 0})) {
        receipt_.there += documents;
        continue;
      }
      if (piece_cuts_ > 0) EndWithAnotherToken(prompt);
      while (engine_.waiting() >= engine_.wanted_waiting()) {
        engine_.Step();
        TakeEnds();
      }
      engine_.Submit(std::move(prompt));
    }
    // Something to do while the next document is read.
    if (engine_.waiting() + engine_.running() > 0) engine_.Step();
    TakeEnds();
  }

  bool AllThere(const std::vector<Digest>& names) {
    for (const Digest& name : names) {
      if (!store_->parts().Has(name, stored_type_)) return false;
      const std::optional<BlockPlace> found = store_->parts().Find(name, stored_type_);
      if (!found) continue;
      used_.insert(found->segment);
      store_->parts().NoteUse(found->segment);
    }
    return true;
  }

  // Where layers keep states: of those after each piece of a segment with these cuts.
  std::vector<Digest> StatesOf(const std::vector<Digest>& cuts) const {
    std::vector<Digest> states;
    if (piece_cuts_ == 0) return states;
    for (size_t cut = 1; cut <= cuts.size(); ++cut) {
      if (cut % piece_cuts_ == 0 || cut == cuts.size()) states.push_back(StateName(cuts[cut - 1]));
    }
    return states;
  }

  // All of the segment and of what is below it.
  bool IsThere(const PromptSegment& segment, RunPlace place) {
    if (segment.first_position) place.first_position = *segment.first_position;
    if (!segment.tokens.empty()) {
      const std::vector<Digest> names = BlockNames(place, segment.tokens);
      if (!AllThere(names) || !AllThere(StatesOf(names))) return false;
      place.above = names.back();
      place.first_position += static_cast<std::int32_t>(segment.tokens.size());
    }
    return std::ranges::all_of(segment.below,
                               [&](const PromptSegment& child) { return IsThere(child, place); });
  }

  void TakeEnds() {
    for (const Answer& answer : engine_.TakeFinished()) {
      if (answer.finish == FinishReason::kError) {
        Fail(answer.error);
      } else {
        ++receipt_.documents;
      }
    }
    if (!store_->parts().saving()) store_->Finish();  // throws why
    Report(/*last=*/false);
  }

  void Fail(const std::string& why) {
    ++receipt_.failed;
    if (receipt_.first_error.empty()) receipt_.first_error = why;
    if (options_.job.notice) options_.job.notice(why);
  }

  bool Stopped() {
    if (options_.job.stop && options_.job.stop()) receipt_.stopped = true;
    return receipt_.stopped;
  }

  // What this run saved, and what the store already had of its documents.
  void PinAll() {
    for (const IndexedSegment& segment : store_->parts().writing->List()) {
      if (segment.created >= store_->parts().opened || used_.contains(segment.number)) {
        store_->parts().writing->SetPinned(segment.number, true);
      }
    }
  }

  double Seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  void Report(bool last) {
    if (!options_.progress || (!last && Seconds() < next_report_)) return;
    next_report_ = Seconds() + kBetweenReports;
    options_.progress({Seconds(), last ? 1.0 : fraction_, receipt_.documents + receipt_.there,
                       store_->parts().saved().tokens, last});
  }

  std::shared_ptr<Model> model_;
  const KvAddOptions& options_;
  std::shared_ptr<KvStore> store_;
  const KvType stored_type_;
  const size_t piece_cuts_;  // 0: the model keeps no states
  Engine engine_;
  KvAddReceipt receipt_;
  std::set<std::int64_t> used_;  // segments that were there
  double fraction_ = -1.0;
  double next_report_ = 0.0;
  const Clock::time_point start_ = Clock::now();
};

}  // namespace

KvAddReceipt AddToStore(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                        const KvAddOptions& options) {
  BANYAN_CHECK(engine_options.kv_store && engine_options.kv_store->writable());
  if (model->text() == nullptr) {
    Throw(ErrorKind::kUnsupported, "kv add: the model's files have no tokenizer");
  }
  return KvAdder(std::move(model), engine_options, options).Run();
}

}  // namespace banyan
