// The prompts of a record: which text, which tokens, what to do when it is too long. The rows are
// in ask_rows.cc.
#include "tasks/ask_work.h"

#include <algorithm>

#include "base/error.h"
#include "base/sha256.h"
#include "text/utf8.h"

namespace banyan {
namespace {

constexpr size_t kMostParts = 10'000;
constexpr size_t kMostAnswers = 1u << 20;  // of one record
constexpr size_t kWordBytes = 200;         // a cut is moved back to a space at most so far

std::string AsText(const Json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::uint64_t DrawKeyOf(const Json& id) {
  return Prefix64(Sha256().Add(id.dump(-1, ' ', false, Json::error_handler_t::replace)).Finish());
}

// The nearest place at or before `end` where the text may be cut: after a space, else between
// characters.
size_t CutPlace(std::string_view text, size_t end) {
  if (end >= text.size()) return text.size();
  const size_t earliest = end > kWordBytes ? end - kWordBytes : 1;
  for (size_t at = end; at >= earliest && at > 0; --at) {
    if (text[at - 1] == ' ' || text[at - 1] == '\n') return at;
  }
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return end;
}

}  // namespace

AskWork::AskWork(AskSettings& settings, AskRecord record, RowPlace place)
    : settings_(settings), record_(std::move(record)), place_(std::move(place)) {
  asked_.resize(record_.questions.size());
  for (size_t i = 0; i < asked_.size(); ++i) asked_[i].problem = record_.questions[i].problem;
}

std::vector<PromptSegment> AskWork::NextPrompts() {
  if (std::exchange(started_, true)) return {};
  AskAll();
  return std::move(roots_);
}

void AskWork::Take(Answer answer) {
  const Slot slot = slots_[answer.tag];
  Asked& asked = asked_[slot.question];
  if (answer.finish == FinishReason::kError && !asked.problem) {
    asked.problem = {ErrorKind::kLimit, answer.error};
  }
  asked.parts[slot.part].answers[slot.answer] = std::move(answer);
}

void AskWork::Refuse(const Error& error) {
  for (Asked& asked : asked_) {
    if (!asked.problem) asked.problem = {error.kind(), error.what()};
  }
}

std::vector<RowProblem> AskWork::Problems() const {
  std::vector<RowProblem> problems;
  for (const Asked& asked : asked_) {
    if (asked.problem) problems.push_back(*asked.problem);
  }
  return problems;
}

bool AskWork::IsLetterQuestion(size_t question) const {
  return settings_.options.choices == ChoiceMode::kLetter &&
         !record_.questions[question].choices.empty();
}

// What stands in the prompt for {question} and {choices}.
void AskWork::Show(size_t question) {
  const AskQuestion& wanted = record_.questions[question];
  Asked& asked = asked_[question];
  asked.shown = wanted.question;
  if (wanted.choices.empty()) return;
  if (IsLetterQuestion(question) && wanted.choices.size() > 26) {
    Throw(ErrorKind::kInput, "'choices': letters serve up to 26, found {}", wanted.choices.size());
  }
  for (size_t i = 0; i < wanted.choices.size(); ++i) {
    const std::string label = wanted.choices.size() <= 26
                                  ? std::string(1, static_cast<char>('A' + i))
                                  : fmt::format("{}", i + 1);
    asked.options += fmt::format("{}{}. {}", i > 0 ? "\n" : "", label, wanted.choices[i]);
  }
  if (IsLetterQuestion(question) && !settings_.template_shows_choices) {
    asked.shown += "\n" + asked.options + "\nAnswer with the letter.";
  }
}

std::vector<PromptPart> AskWork::Write(size_t question, std::string_view context) {
  const AskQuestion& wanted = record_.questions[question];
  const Asked& asked = asked_[question];
  const auto carried = [&](const Json& fields, const std::string& name,
                           PromptLevel level) -> std::optional<PromptVariable> {
    const auto it = fields.find(name);
    if (it == fields.end()) return std::nullopt;
    if (it->is_string()) return PromptVariable{it->get_ref<const std::string&>(), level};
    return PromptVariable{texts_.emplace_back(AsText(*it)), level};
  };
  return settings_.writer->Write([&](const std::string& name) -> std::optional<PromptVariable> {
    if (name == "context") return PromptVariable{context, PromptLevel::kRecord};
    if (name == "question") return PromptVariable{asked.shown, PromptLevel::kQuestion};
    if (name == "choices") return PromptVariable{asked.options, PromptLevel::kQuestion};
    if (name == "instruction") {
      return PromptVariable{
          record_.instruction ? *record_.instruction : settings_.options.instruction,
          PromptLevel::kShared};
    }
    if (name == "id") {
      return PromptVariable{texts_.emplace_back(AsText(record_.id)), PromptLevel::kRecord};
    }
    if (name == "question_id") {
      return PromptVariable{texts_.emplace_back(AsText(wanted.id)), PromptLevel::kQuestion};
    }
    if (auto found = carried(wanted.carried, name, PromptLevel::kQuestion)) return found;
    return carried(record_.carried, name, PromptLevel::kRecord);
  });
}

AskWork::Prompt AskWork::Encode(size_t question, std::string_view context) {
  const AskQuestion& wanted = record_.questions[question];
  Prompt prompt;
  prompt.parts = Write(question, context);
  prompt.encoded = settings_.encoder->Encode(prompt.parts);
  if (wanted.choices.empty()) {
    prompt.room = settings_.options.max_new;
    return prompt;
  }
  const std::string separator(settings_.writer->answer_separator());
  for (size_t i = 0; i < wanted.choices.size(); ++i) {
    const std::string option =
        IsLetterQuestion(question) ? std::string(1, static_cast<char>('A' + i)) : wanted.choices[i];
    size_t kept = 0;
    std::vector<TokenId> tokens =
        settings_.encoder->Continue(prompt.parts, prompt.encoded, separator + option, kept);
    if (kept == tokens.size()) {
      Throw(ErrorKind::kInput, "'choices': option {} has no tokens of its own", i);
    }
    if (IsLetterQuestion(question)) tokens.resize(kept + 1);
    prompt.room = std::max(prompt.room, static_cast<int>(tokens.size() - kept));
    prompt.continued.push_back(std::move(tokens));
    prompt.kept.push_back(kept);
  }
  return prompt;
}

std::int64_t AskWork::Needs(const Prompt& prompt) const {
  return static_cast<std::int64_t>(prompt.encoded.tokens.size()) + prompt.room;
}

void AskWork::AskAll() {
  const std::int64_t window = settings_.model->context_length();
  std::vector<size_t> too_long;
  for (size_t question = 0; question < asked_.size(); ++question) {
    Guarded(question, [&] {
      Show(question);
      const Prompt prompt = Encode(question, record_.context);
      if (Needs(prompt) <= window) return Add(question, prompt);
      if (settings_.options.too_long == TooLong::kFail) {
        Throw(ErrorKind::kLimit,
              "too long: the prompt has {} tokens and the answer may need {}; the model's context "
              "holds {} (see --too-long)",
              prompt.encoded.tokens.size(), prompt.room, window);
      }
      too_long.push_back(question);
    });
  }
  if (!too_long.empty()) AskTooLong(too_long);
}

// The longest beginning of the context, in bytes, with which the question fits. Tokens are not
// known without tokenising, so the length is approached from a guess. `without` is what the prompt
// needs without any context.
size_t AskWork::LongestFit(size_t question, std::string_view context, std::int64_t without) {
  // Other questions on the same stretch may meet its end with a token more.
  constexpr std::int64_t kSpareTokens = 4;
  const std::int64_t window = settings_.model->context_length() - kSpareTokens;
  // A long text is measured by its beginning: a token has a few bytes, rarely more than ten.
  size_t length = std::min(context.size(),
                           static_cast<size_t>(std::max<std::int64_t>(window - without, 1)) * 10);
  size_t fits = 0;
  size_t fails = context.size() + 1;
  for (int attempt = 0; attempt < 12 && length > fits && length < fails; ++attempt) {
    const size_t cut = CutPlace(context, length);
    const std::int64_t needs = Needs(Encode(question, context.substr(0, cut)));
    const double share = static_cast<double>(window - without) /
                         static_cast<double>(std::max<std::int64_t>(needs - without, 1));
    if (needs <= window) {
      fits = std::max(fits, cut);
      if (cut == context.size() || share < 1.02) break;
    } else {
      fails = std::min(fails, length);
    }
    const auto guess = static_cast<size_t>(static_cast<double>(cut) * std::max(share, 0.0) * 0.995);
    length = std::clamp(guess, fits + 1, std::max(fits + 1, fails - 1));
  }
  if (fits == 0) {
    Throw(ErrorKind::kLimit, "too long: the question leaves no room for the context");
  }
  return fits;
}

// Stretches of the context that fit with the question: the first one, or all of it in parts that
// overlap by a tenth, so that what stands across a cut is whole in one of them.
std::vector<std::string_view> AskWork::Stretches(size_t question, std::int64_t without) {
  const std::string_view context = record_.context;
  std::vector<std::string_view> stretches;
  size_t begin = 0;
  while (begin < context.size()) {
    if (stretches.size() == kMostParts) {
      Throw(ErrorKind::kLimit, "too long: the context needs more than {} parts", kMostParts);
    }
    const size_t length = LongestFit(question, context.substr(begin), without);
    stretches.push_back(context.substr(begin, length));
    if (settings_.options.too_long == TooLong::kTruncate || begin + length >= context.size()) break;
    const size_t next = CutPlace(context, begin + length - length / 10);
    begin = next > begin ? next : begin + length;
  }
  return stretches;
}

// All questions get the same stretches, those of the longest one, so that they share them.
void AskWork::AskTooLong(const std::vector<size_t>& questions) {
  const std::int64_t window = settings_.model->context_length();
  std::int64_t most = -1;
  size_t longest = 0;
  for (const size_t question : questions) {
    Guarded(question, [&] {
      const std::int64_t without = Needs(Encode(question, ""));
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
  std::vector<std::string_view> stretches;
  Guarded(longest, [&] { stretches = Stretches(longest, most); });
  for (const size_t question : questions) {
    Guarded(question, [&] {
      if (asked_[longest].problem) {
        Throw(asked_[longest].problem->kind, "{}", asked_[longest].problem->message);
      }
      if (settings_.options.too_long == TooLong::kTruncate) {
        asked_[question].cut_bytes = record_.context.size() - stretches.front().size();
      }
    });
  }
  for (const std::string_view stretch : stretches) {
    for (const size_t question : questions) {
      Guarded(question, [&] {
        const Prompt prompt = Encode(question, stretch);
        if (Needs(prompt) > window) {
          Throw(ErrorKind::kLimit,
                "too long: {} tokens for a part of the context; the model's "
                "context holds {}",
                Needs(prompt), window);
        }
        Add(question, prompt);
      });
    }
  }
}

// Runs `body` unless the question has a problem; an error becomes its problem.
void AskWork::Guarded(size_t question, const std::function<void()>& body) {
  std::optional<RowProblem>& problem = asked_[question].problem;
  if (problem) return;
  try {
    body();
  } catch (const Error& e) {
    problem = {e.kind(), e.what()};
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

void AskWork::Add(size_t question, const Prompt& prompt) {
  Asked& asked = asked_[question];
  const size_t part_index = asked.parts.size();
  const bool free_text = prompt.continued.empty();
  const size_t count =
      free_text ? static_cast<size_t>(settings_.options.samples) : prompt.continued.size();
  Part& part = asked.parts.emplace_back();
  part.answers.resize(count);
  part.prompt_tokens = static_cast<std::int64_t>(prompt.encoded.tokens.size());
  for (size_t i = 0; i < count; ++i) {
    AnswerRequest request = RequestFor(question, part_index, i);
    if (free_text) {
      AddLeaf(prompt.encoded.tokens, prompt.encoded, prompt.encoded.tokens.size(),
              std::move(request));
      continue;
    }
    const std::vector<TokenId>& tokens = prompt.continued[i];
    request.stop_strings.clear();
    request.forced.assign(tokens.begin() + static_cast<std::ptrdiff_t>(prompt.kept[i]),
                          tokens.end());
    AddLeaf(tokens, prompt.encoded, prompt.kept[i], std::move(request));
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
  PromptSegment& context = find(root.below, shared_end, record_end);
  find(context.below, record_end, prompt_tokens).answers.push_back(std::move(request));
}

}  // namespace banyan
