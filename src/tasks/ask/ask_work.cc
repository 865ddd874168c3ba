// A record's questions as a tree of prompts. What a prompt says is in ask_prompt.cc, what becomes
// of one that is too long in ask_too_long.cc, the rows are in ask_rows.cc.
#include "tasks/ask/ask_work.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_row.h"
#include "base/sha256.h"
#include "constrain/copies_after.h"

namespace banyan {
namespace {

constexpr size_t kMostAnswers = 1u << 20;  // of one record

std::uint64_t DrawKeyOf(const Json& id) { return Prefix64(Sha256().Add(DumpJson(id)).Finish()); }

}  // namespace

AskWork::AskWork(AskSettings& settings, AskModel model, AskRecord record, RowPlace place)
    : settings_(settings), model_(model), record_(std::move(record)), place_(std::move(place)) {
  asked_.resize(record_.questions.size());
  for (size_t i = 0; i < asked_.size(); ++i) asked_[i].problem = record_.questions[i].problem;
}

std::vector<PromptSegment> AskWork::NextPrompts() {
  const bool first = !std::exchange(started_, true);
  if (!first && !WantsMore()) return {};
  const EncoderPool::Lease encoder = settings_.encoders->Take();
  encoder_ = encoder.get();
  roots_.clear();
  if (first) AskAll();
  while (!first && roots_.empty() && WantsMore()) AskAgain();
  encoder_ = nullptr;
  return std::move(roots_);
}

void AskWork::Take(Answer answer) {
  const Slot slot = slots_[answer.tag];
  Asked& asked = asked_[slot.question];
  if (answer.finish == FinishReason::kError && !asked.problem) {
    asked.problem = {ErrorKind::kLimit, answer.error};
  }
  asked.cancelled |= answer.finish == FinishReason::kCancelled;
  Part& part = PartAt(slot.question, slot.part);
  (slot.answer == kOtherAnswer ? part.other : part.answers[slot.answer]) = std::move(answer);
  // After a refusal nothing is missing any more.
  if (asked.missing > 0 && --asked.missing == 0) Settle(slot.question);
}

bool AskWork::IsPlain(std::uint64_t tag) const {
  const Slot& slot = slots_[tag];
  return settings_.options.samples == 1 && !settings_.options.thinking &&
         settings_.options.min_confidence <= 0.0 && slot.answer != kOtherAnswer &&
         record_.questions[slot.question].choices.empty() &&
         asked_[slot.question].parts.size() == 1;
}

void AskWork::Refuse(const Error& error) {
  for (Asked& asked : asked_) {
    if (!asked.problem) asked.problem = {error.kind(), error.what()};
    asked.missing = 0;
    asked.next = Stage::kDone;
  }
}

std::vector<RowProblem> AskWork::Problems() const {
  std::vector<RowProblem> problems;
  for (const Asked& asked : asked_) {
    if (asked.problem) problems.push_back(*asked.problem);
  }
  return problems;
}

void AskWork::AskAll() {
  const std::int64_t window = settings_.model->context_length();
  std::vector<size_t> too_long;
  for (size_t question = 0; question < asked_.size(); ++question) {
    Guarded(question, [&] {
      Show(question);
      // Tokenising much more than can ever fit takes time and memory for nothing.
      if (record_.context.size() / kMostBytesOfToken > static_cast<size_t>(window)) {
        if (settings_.options.too_long != TooLong::kFail) return too_long.push_back(question);
        Throw(ErrorKind::kLimit,
              "too long: the document has {} bytes; the model's context holds {} tokens; cut "
              "it or ask about its parts (--too-long, in requests too_long)",
              record_.context.size(), window);
      }
      const Prompt prompt = Encode(question, record_.context);
      const bool parts = settings_.options.part_tokens > 0 &&
                         settings_.options.too_long == TooLong::kSplit &&
                         Needs(prompt) > PartWindow(Needs(Encode(question, "")));
      if (Needs(prompt) <= window && !parts) {
        Add(question, prompt);
        return AddPrior(question);
      }
      if (settings_.options.too_long == TooLong::kFail) {
        Throw(
            ErrorKind::kLimit,
            "too long: the prompt has {} tokens and the answer may need {}; the model's context "
            "holds {}; cut the document or ask about its parts (--too-long, in requests too_long)",
            prompt.encoded.tokens.size(), prompt.room, window);
      }
      too_long.push_back(question);
    });
  }
  if (!too_long.empty()) AskTooLong(too_long);
}

// Runs `body` unless the question has a problem; an error becomes its problem.
void AskWork::Guarded(size_t question, const std::function<void()>& body) {
  std::optional<RowProblem>& problem = asked_[question].problem;
  if (problem) return;
  try {
    body();
  } catch (const std::exception& e) {
    problem = ProblemOf(e);
  }
}

AnswerRequest AskWork::RequestFor(size_t question, size_t part, size_t answer) {
  const AskOptions& options = settings_.options;
  if (slots_.size() >= kMostAnswers) {
    Throw(ErrorKind::kLimit, "the record asks for more than {} answers", kMostAnswers);
  }
  AnswerRequest request;
  request.tag = slots_.size();
  slots_.push_back({question, part, answer});
  ++asked_[question].missing;
  request.request_key = DrawKeyOf(record_.id);
  request.question_key = DrawKeyOf(record_.questions[question].id);
  request.sample_key = answer;
  request.max_new = options.max_new;
  request.stop_tokens = settings_.model->end_tokens();
  request.stop_strings = options.stop;
  request.sampling = options.sampling;
  request.top_logprobs = options.top_logprobs;
  return request;
}

// Null: what stands there cannot be copied, and need not be.
std::shared_ptr<const Constraint> AskWork::CopiesOf(std::string_view context) {
  const auto [place, is_new] = copies_.try_emplace({context.data(), context.size()});
  if (!is_new) return place->second;
  const std::vector<std::string> nothing = {null_text()};
  ConstraintOptions options;
  options.end_tokens = settings_.model->end_tokens();
  options.mask_bytes = size_t{4} << 20;
  try {
    place->second = CopiesAfter(settings_.writer->answer_separator(), context, nothing,
                                settings_.trie, options);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::kLimit || !model_.may_exceed) throw;
  }
  return place->second;
}

AskWork::Part& AskWork::PartAt(size_t question, size_t part_index) {
  Asked& asked = asked_[question];
  if (part_index == kPriorPart) return asked.prior;
  return part_index == kReducedPart ? asked.reduced : asked.parts[part_index];
}

void AskWork::Add(size_t question, const Prompt& prompt) {
  asked_[question].parts.emplace_back();
  AddTo(question, asked_[question].parts.size() - 1, prompt);
}

void AskWork::AddTo(size_t question, size_t part_index, const Prompt& prompt) {
  const bool free_text = prompt.continued.empty();
  const size_t count =
      free_text ? static_cast<size_t>(settings_.options.samples) : prompt.continued.size();
  Part& part = PartAt(question, part_index);
  part.answers.resize(count);
  part.context = prompt.context;
  part.pieces = {prompt.context};
  part.prompt_tokens = static_cast<std::int64_t>(prompt.encoded.tokens.size());
  if (free_text && model_.copies) part.copied = CopiesOf(prompt.context);
  for (size_t i = 0; i < count; ++i) {
    AnswerRequest request = RequestFor(question, part_index, i);
    if (free_text) {
      request.constraint = model_.copies ? part.copied : settings_.constraint;
      AddLeaf(prompt.encoded.tokens, prompt.encoded, prompt.encoded.tokens.size(),
              std::move(request));
      continue;
    }
    request.stop_strings.clear();
    request.forced = prompt.continued[i];
    AddLeaf(prompt.encoded.tokens, prompt.encoded, prompt.kept[i], std::move(request));
  }
}

// Puts the first `prompt_tokens` tokens into the tree, as instruction → context → question.
void AskWork::AddLeaf(const std::vector<TokenId>& tokens, const EncodedPrompt& ends,
                      size_t prompt_tokens, AnswerRequest request) {
  const size_t record_end = std::min(ends.record_end, prompt_tokens);
  const size_t shared_end = std::min(ends.shared_end, record_end);
  const auto find = [&](std::vector<PromptSegment>& among, size_t begin,
                        size_t end) -> PromptSegment& {
    const std::span<const TokenId> wanted(tokens.data() + begin, end - begin);
    // Equal ones come close together: samples of a question, options, questions of a context.
    constexpr std::ptrdiff_t kLookBack = 64;
    const auto last =
        among.rbegin() + std::min(kLookBack, static_cast<std::ptrdiff_t>(among.size()));
    for (auto it = among.rbegin(); it != last; ++it) {
      if (std::ranges::equal(it->tokens, wanted)) return *it;
    }
    PromptSegment& added = among.emplace_back();
    added.tokens.assign(wanted.begin(), wanted.end());
    return added;
  };
  PromptSegment& root = find(roots_, 0, shared_end);
  root.keep_as = "instruction";
  PromptSegment& context = find(root.below, shared_end, record_end);
  if (context.keep_as.empty()) {
    context.keep_as = record_.id.is_string() ? record_.id.get<std::string>() : DumpJson(record_.id);
  }
  find(context.below, record_end, prompt_tokens).answers.push_back(std::move(request));
}

}  // namespace banyan
