// The first stage asks all questions, over parts where the context is too long; later stages ask
// once more about null and about the best passages.
#include "tasks/ask/ask_work.h"

#include <algorithm>

#include "base/error.h"
#include "tasks/prompt/document_fitter.h"

namespace banyan {
namespace {

constexpr size_t kPassageBytes = 1200, kLeastPassageBytes = 64;  // around an answer

}  // namespace

AskWork::AskWork(const AskSettings& settings, const AskModel& model, AskRecord record,
                 RowPlace place)
    : settings_(settings),
      model_(model),
      record_(std::move(record)),
      place_(std::move(place)),
      asked_(record_.questions.size()),
      prompts_(settings_, record_),
      requests_(settings_, record_),
      copies_(settings_, model_),
      reader_(settings_, model_),
      null_bias_(settings_.options, model_, reader_),
      ranking_(record_.context, reader_),
      rows_(settings_, model_, record_, reader_, ranking_) {
  for (size_t i = 0; i < asked_.size(); ++i) asked_[i].problem = record_.questions[i].problem;
}

std::vector<PromptSegment> AskWork::NextPrompts() {
  const bool first = !std::exchange(started_, true);
  if (!first && !WantsMore()) return {};
  const EncoderPool::Lease encoder = settings_.encoders->Take();
  prompts_.SetEncoder(encoder.get());
  if (first) AskAll();
  while (!first && requests_.empty() && WantsMore()) AskNextStage();
  prompts_.SetEncoder(nullptr);
  return requests_.TakePrompts();
}

void AskWork::Take(Answer answer) {
  const AnswerSlot slot = requests_.SlotOf(answer.tag);
  AskedQuestion& asked = asked_[slot.question];
  if (answer.finish == FinishReason::kError && !asked.problem) {
    asked.problem = {ErrorKind::kLimit, answer.error};
  }
  asked.cancelled |= answer.finish == FinishReason::kCancelled;
  AskedPart& part = asked.PartAt(slot.part);
  const bool other = slot.answer == AskedQuestion::kOtherAnswer;
  (other ? part.other : part.answers[slot.answer]) = std::move(answer);
  // After a refusal nothing is missing any more.
  if (asked.missing > 0 && --asked.missing == 0) Settle(slot.question);
}

void AskWork::Refuse(const Error& error) {
  for (AskedQuestion& asked : asked_) {
    if (!asked.problem) asked.problem = {error.kind(), error.what()};
    asked.missing = 0;
    asked.next = AskStage::kDone;
  }
}

std::vector<RowProblem> AskWork::Problems() const {
  std::vector<RowProblem> problems;
  for (const AskedQuestion& asked : asked_) {
    if (asked.problem) problems.push_back(*asked.problem);
  }
  return problems;
}

size_t AskWork::parts() const {
  size_t most = 1;
  for (const AskedQuestion& asked : asked_) most = std::max(most, asked.parts.size());
  return most;
}

OutputRow AskWork::Row(size_t question) {
  OutputRow row;
  // An answer that cannot become a row is an error of that row alone.
  Guarded(question, [&] { row = rows_.Row(question, asked_[question]); });
  if (!asked_[question].problem) return row;
  const AskQuestion& asked = record_.questions[question];
  return AskErrorRow(record_.id, asked.id, asked.question.empty() ? Json() : Json(asked.question),
                     *asked_[question].problem, place_, record_.carried);
}

bool AskWork::IsPlain(std::uint64_t tag) const {
  const AnswerSlot& slot = requests_.SlotOf(tag);
  return settings_.options.samples == 1 && !settings_.options.thinking &&
         settings_.options.min_confidence <= 0.0 && slot.answer != AskedQuestion::kOtherAnswer &&
         record_.questions[slot.question].choices.empty() &&
         asked_[slot.question].parts.size() == 1;
}

void AskWork::Hear(std::uint64_t tag, std::span<const float> logprobs) {
  if (logprobs.empty() || !IsPlain(tag)) return;
  const AnswerSlot& slot = requests_.SlotOf(tag);
  std::optional<float>& first = asked_[slot.question].PartAt(slot.part).first_logprob;
  if (!first) first = logprobs.front();
}

LiveText::Rules AskWork::ShowRules(std::uint64_t tag) const {
  const AskedPart& part = asked_[requests_.SlotOf(tag).question].parts.front();
  LiveText::Rules rules{.null_text = model_.card->null_text, .whole_words = part.copied != nullptr};
  rules.sure = !part.copied || null_bias_.bias() <= 0.0 ||
               (part.first_logprob && !null_bias_.MayTurn(*part.first_logprob, /*is_null=*/false));
  return rules;
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

// --- The first stage

void AskWork::AskAll() {
  const std::int64_t window = settings_.model->context_length();
  std::vector<size_t> too_long;
  for (size_t question = 0; question < asked_.size(); ++question) {
    Guarded(question, [&] {
      prompts_.Prepare(question);
      // Tokenising much more than can ever fit takes time and memory for nothing.
      if (record_.context.size() / kMostBytesOfToken > static_cast<size_t>(window)) {
        if (settings_.options.too_long != TooLong::kFail) return too_long.push_back(question);
        Throw(ErrorKind::kLimit,
              "too long: the document has {} bytes; the model's context holds {} tokens; cut "
              "it or ask about its parts (--too-long, in requests too_long)",
              record_.context.size(), window);
      }
      const AskPrompt prompt = prompts_.Build(question, record_.context);
      if (Fits(question, prompt)) {
        AddPrompt(question, asked_[question].parts.size(), prompt);
        return AskPrior(question);
      }
      if (settings_.options.too_long == TooLong::kFail) {
        Throw(
            ErrorKind::kLimit,
            "too long: the prompt has {} tokens and the answer may need {}; the model's context "
            "holds {}; cut the document or ask about its parts (--too-long, in requests too_long)",
            prompt.encoded.tokens.size(), prompt.answer_tokens, window);
      }
      too_long.push_back(question);
    });
  }
  if (!too_long.empty()) AskTooLong(too_long);
}

// The context is asked about whole.
bool AskWork::Fits(size_t question, const AskPrompt& prompt) {
  const AskOptions& options = settings_.options;
  if (prompt.tokens() > settings_.model->context_length()) return false;
  if (options.part_tokens <= 0 || options.too_long != TooLong::kSplit) return true;
  return prompt.tokens() <= prompts_.Build(question, "").tokens() + options.part_tokens;
}

// Parts of the context that fit with the question: the first one, or all of it in parts.
// `without`: tokens that the prompt needs without any context.
std::vector<std::string_view> AskWork::PartsFor(size_t question, std::int64_t without) {
  std::int64_t window = settings_.model->context_length();
  if (const int tokens = settings_.options.part_tokens; tokens > 0) {
    window = std::min(window, without + tokens);
  }
  DocumentFitter fitter(record_.context, window, without, [&](std::string_view text) {
    return prompts_.Build(question, text).tokens();
  });
  const bool truncate = settings_.options.too_long == TooLong::kTruncate;
  std::vector<std::string_view> parts;
  while (!fitter.done()) {
    if (parts.size() == DocumentFitter::kMostParts) {
      Throw(ErrorKind::kLimit, "too long: the context needs more than {} parts",
            DocumentFitter::kMostParts);
    }
    const std::optional<std::string_view> part =
        truncate ? fitter.Truncated() : fitter.NextOverlapping();
    if (!part) Throw(ErrorKind::kLimit, "too long: the question leaves no room for the context");
    parts.push_back(*part);
    if (truncate) break;
  }
  return parts;
}

// All questions get the same parts, those of the longest one, so that they share them.
void AskWork::AskTooLong(const std::vector<size_t>& questions) {
  const std::int64_t window = settings_.model->context_length();
  std::int64_t most = -1;
  size_t longest = 0;
  for (const size_t question : questions) {
    Guarded(question, [&] {
      const std::int64_t without = prompts_.Build(question, "").tokens();
      if (without >= window) {
        Throw(ErrorKind::kLimit,
              "too long: without any context the prompt and its answer need {} tokens; the model's "
              "context holds {}",
              without, window);
      }
      if (without > most) {
        most = without;
        longest = question;
      }
    });
  }
  if (most < 0) return;
  std::vector<std::string_view> parts;
  Guarded(longest, [&] { parts = PartsFor(longest, most); });
  for (const size_t question : questions) {
    Guarded(question, [&] {
      if (asked_[longest].problem) {
        Throw(asked_[longest].problem->kind, "{}", asked_[longest].problem->message);
      }
      if (settings_.options.too_long == TooLong::kTruncate) {
        asked_[question].cut_bytes = record_.context.size() - parts.front().size();
      }
    });
  }
  for (const size_t question : questions) {
    Guarded(question, [&] { AskPrior(question); });
  }
  for (const std::string_view part : parts) {
    for (const size_t question : questions) {
      Guarded(question, [&] {
        const AskPrompt prompt = prompts_.Build(question, part);
        if (prompt.tokens() > window) {
          Throw(ErrorKind::kLimit,
                "too long: {} tokens for a part of the context; the model's "
                "context holds {}",
                prompt.tokens(), window);
        }
        AddPrompt(question, asked_[question].parts.size(), prompt);
      });
    }
  }
}

// Every choice once more, after the prompt without a document.
void AskWork::AskPrior(size_t question) {
  const AskQuestion& asked = record_.questions[question];
  if (settings_.options.choice_score != ChoiceScore::kPrior) return;
  if (asked.choices.empty() || IsLetterQuestion(settings_.options, asked)) return;
  AddPrompt(question, AskedQuestion::kPriorPart, prompts_.Build(question, ""));
}

// Asks for the samples or choices of a part; the one after the last part is new.
void AskWork::AddPrompt(size_t question, size_t part_number, const AskPrompt& prompt) {
  AskedQuestion& asked = asked_[question];
  if (part_number == asked.parts.size()) asked.parts.emplace_back();
  const bool free_text = prompt.continued.empty();
  const size_t count =
      free_text ? static_cast<size_t>(settings_.options.samples) : prompt.continued.size();
  AskedPart& part = asked.PartAt(part_number);
  part.answers.resize(count);
  part.context = prompt.context;
  part.pieces = {prompt.context};
  part.prompt_tokens = static_cast<std::int64_t>(prompt.encoded.tokens.size());
  if (free_text && model_.copies) part.copied = copies_.OrNull(prompt.context);
  for (size_t i = 0; i < count; ++i) {
    AnswerRequest request = requests_.NewRequest({question, part_number, i});
    ++asked.missing;
    if (free_text) {
      request.constraint = model_.copies ? part.copied : settings_.constraint;
      requests_.Add(prompt.encoded, prompt.encoded.tokens.size(), std::move(request));
      continue;
    }
    request.stop_strings.clear();
    request.forced = prompt.continued[i];
    requests_.Add(prompt.encoded, prompt.kept[i], std::move(request));
  }
}

// --- Later stages

// All answers of a question are there: is there more to ask?
void AskWork::Settle(size_t question) {
  AskedQuestion& asked = asked_[question];
  asked.next = AskStage::kDone;
  if (asked.problem || asked.cancelled || !record_.questions[question].choices.empty()) return;
  if (asked.stage == AskStage::kFirst) {
    for (const AskedPart& part : asked.parts) {
      if (null_bias_.IsUndecided(part)) asked.next = AskStage::kNull;
    }
  }
  if (asked.stage == AskStage::kNull) {
    for (AskedPart& part : asked.parts) null_bias_.Decide(part);
  }
  const bool reduces = settings_.options.reduce && asked.stage != AskStage::kReduce;
  if (asked.next == AskStage::kDone && reduces && asked.parts.size() > 1) {
    if (!ranking_.Candidates(asked).empty()) asked.next = AskStage::kReduce;
  }
}

// All answers are there, and some questions have more to ask.
bool AskWork::WantsMore() const {
  bool more = false;
  for (const AskedQuestion& asked : asked_) {
    if (asked.missing > 0) return false;
    more |= asked.next != AskStage::kDone;
  }
  return more;
}

void AskWork::AskNextStage() {
  for (size_t question = 0; question < asked_.size(); ++question) {
    AskedQuestion& asked = asked_[question];
    asked.stage = std::exchange(asked.next, AskStage::kDone);
    Guarded(question, [&] {
      if (asked.stage == AskStage::kReduce) AskReduced(question);
      for (size_t i = 0; asked.stage == AskStage::kNull && i < asked.parts.size(); ++i) {
        if (null_bias_.IsUndecided(asked.parts[i])) AskAboutNull(question, i);
      }
    });
    // What could not be asked again stays as it is.
    if (asked.stage != AskStage::kDone && asked.missing == 0) Settle(question);
  }
}

// Asks for the best answer where there was none, and for the probability of none where there was.
void AskWork::AskAboutNull(size_t question, size_t part_number) {
  const AskedPart& part = asked_[question].parts[part_number];
  const bool is_null = reader_.FirstIsNull(part);
  const AskPrompt prompt = prompts_.Build(question, part.context);
  std::shared_ptr<const Constraint> copies;
  try {
    if (is_null) copies = copies_.Alone(part.context);
  } catch (const Error&) {
    return;  // there is nothing to copy: the null stays
  }
  AnswerRequest request =
      requests_.NewRequest({question, part_number, AskedQuestion::kOtherAnswer});
  ++asked_[question].missing;
  request.sample_key = 0;
  size_t kept = prompt.encoded.tokens.size();
  if (is_null) {
    request.constraint = std::move(copies);
  } else {
    // As copies begin.
    const std::string null =
        std::string(settings_.writer->answer_separator()) + model_.card->null_text;
    request.stop_strings.clear();
    request.forced = prompts_.Continue(prompt, null, kept);
  }
  requests_.Add(prompt.encoded, kept, std::move(request));
}

// Asks about the passages around the best answers together, as long ones as fit.
void AskWork::AskReduced(size_t question) {
  AskedQuestion& asked = asked_[question];
  const std::vector<PartCandidate> candidates = ranking_.Candidates(asked);
  std::string& text = prompts_.NewText();  // which the prompt's parts and copies view
  for (size_t bytes = kPassageBytes; bytes >= kLeastPassageBytes; bytes = bytes * 2 / 3) {
    const std::vector<std::string_view> passages = ranking_.Passages(candidates, bytes);
    text.clear();
    for (const std::string_view passage : passages) {
      if (!text.empty()) text += "\n\n";
      text += passage;
    }
    const AskPrompt prompt = prompts_.Build(question, text);
    if (prompt.tokens() > settings_.model->context_length()) continue;
    AddPrompt(question, AskedQuestion::kReducedPart, prompt);
    asked.reduced.pieces = passages;
    return;
  }
}

}  // namespace banyan
