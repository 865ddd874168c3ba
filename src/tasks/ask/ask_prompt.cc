// Templates are filled in and tokenised; equal beginnings of prompts become one branch of the tree.
#include "tasks/ask/ask_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "constrain/constraint.h"

namespace banyan {
namespace {

constexpr size_t kMostAnswers = 1u << 20;  // of one record
constexpr size_t kMostLetters = 26;

std::string LetterOf(size_t choice) { return std::string(1, static_cast<char>('A' + choice)); }

std::uint64_t DrawKeyOf(const Json& id) { return Prefix64(Sha256().Add(DumpJson(id)).Finish()); }

}  // namespace

bool IsLetterQuestion(const AskOptions& options, const AskQuestion& question) {
  if (question.choices.empty()) return false;
  return options.choices == ChoiceMode::kLetter ||
         (options.choices == ChoiceMode::kAuto && question.choices.size() <= kMostLetters);
}

AskPromptBuilder::AskPromptBuilder(const AskSettings& settings, const AskRecord& record)
    : settings_(settings), record_(record), questions_(record.questions.size()) {}

void AskPromptBuilder::Prepare(size_t question) {
  const AskQuestion& asked = record_.questions[question];
  const bool letters = IsLetterQuestion(settings_.options, asked);
  QuestionText& text = questions_[question];
  text.question = asked.question;
  if (asked.choices.empty()) return;
  if (letters && asked.choices.size() > kMostLetters) {
    Throw(ErrorKind::kInput, "'choices': letters serve up to 26, found {}", asked.choices.size());
  }
  for (size_t i = 0; i < asked.choices.size(); ++i) {
    const std::string label =
        asked.choices.size() <= kMostLetters ? LetterOf(i) : fmt::format("{}", i + 1);
    text.choices += fmt::format("{}{}. {}", i > 0 ? "\n" : "", label, asked.choices[i]);
  }
  if (letters && !settings_.template_shows_choices) {
    text.question += "\n" + text.choices + "\nAnswer with the letter.";
  }
}

std::vector<PromptPart> AskPromptBuilder::Write(size_t question, std::string_view context) {
  const AskQuestion& asked = record_.questions[question];
  const QuestionText& text = questions_[question];
  const auto carried = [&](const Json& fields, const std::string& name,
                           PromptLevel level) -> std::optional<PromptVariable> {
    const auto it = fields.find(name);
    if (it == fields.end()) return std::nullopt;
    if (it->is_string()) return PromptVariable{it->get_ref<const std::string&>(), level};
    return PromptVariable{texts_.emplace_back(TextOrJson(*it)), level};
  };
  return settings_.writer->Write([&](const std::string& name) -> std::optional<PromptVariable> {
    if (name == "context") return PromptVariable{context, PromptLevel::kRecord};
    if (name == "question") return PromptVariable{text.question, PromptLevel::kQuestion};
    if (name == "choices") return PromptVariable{text.choices, PromptLevel::kQuestion};
    if (name == "instruction") {
      return PromptVariable{
          record_.instruction ? *record_.instruction : settings_.options.instruction,
          PromptLevel::kShared};
    }
    if (name == "id") {
      return PromptVariable{texts_.emplace_back(TextOrJson(record_.id)), PromptLevel::kRecord};
    }
    if (name == "question_id") {
      return PromptVariable{texts_.emplace_back(TextOrJson(asked.id)), PromptLevel::kQuestion};
    }
    if (auto found = carried(asked.carried, name, PromptLevel::kQuestion)) return found;
    return carried(record_.carried, name, PromptLevel::kRecord);
  });
}

AskPrompt AskPromptBuilder::Build(size_t question, std::string_view context) {
  const AskQuestion& asked = record_.questions[question];
  AskPrompt prompt;
  prompt.context = context;
  prompt.parts = Write(question, context);
  prompt.encoded = encoder_->Encode(prompt.parts);
  if (asked.choices.empty()) {
    prompt.answer_tokens = settings_.options.max_new;
    return prompt;
  }
  const bool letters = IsLetterQuestion(settings_.options, asked);
  const std::string separator(settings_.writer->answer_separator());
  for (size_t i = 0; i < asked.choices.size(); ++i) {
    const std::string option = letters ? LetterOf(i) : asked.choices[i];
    size_t kept = 0;
    std::vector<TokenId> tokens = Continue(prompt, separator + option, kept);
    if (tokens.empty()) {
      Throw(ErrorKind::kInput, "'choices': option {} has no tokens of its own", i);
    }
    if (letters) tokens.resize(1);
    prompt.answer_tokens = std::max(prompt.answer_tokens, static_cast<int>(tokens.size()));
    prompt.continued.push_back(std::move(tokens));
    prompt.kept.push_back(kept);
  }
  return prompt;
}

std::vector<TokenId> AskPromptBuilder::Continue(const AskPrompt& prompt, std::string_view text,
                                                size_t& kept) {
  const std::vector<TokenId> tokens = encoder_->Continue(prompt.parts, prompt.encoded, text, kept);
  return {tokens.begin() + static_cast<std::ptrdiff_t>(kept), tokens.end()};
}

AnswerRequest AskRequestTree::NewRequest(const AnswerSlot& slot) {
  const AskOptions& options = settings_.options;
  if (slots_.size() >= kMostAnswers) {
    Throw(ErrorKind::kLimit, "the record asks for more than {} answers", kMostAnswers);
  }
  AnswerRequest request;
  request.tag = slots_.size();
  slots_.push_back(slot);
  request.request_key = DrawKeyOf(record_.id);
  request.question_key = DrawKeyOf(record_.questions[slot.question].id);
  request.sample_key = slot.answer;
  request.max_new = options.max_new;
  request.stop_tokens = settings_.model->end_tokens();
  request.stop_strings = options.stop;
  request.sampling = options.sampling;
  request.top_logprobs = options.top_logprobs;
  return request;
}

void AskRequestTree::Add(const EncodedPrompt& prompt, size_t prompt_tokens, AnswerRequest request) {
  const size_t record_end = std::min(prompt.record_end, prompt_tokens);
  const size_t shared_end = std::min(prompt.shared_end, record_end);
  const auto find = [&](std::vector<PromptSegment>& among, size_t begin,
                        size_t end) -> PromptSegment& {
    const std::span<const TokenId> wanted(prompt.tokens.data() + begin, end - begin);
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

std::vector<PromptSegment> AskRequestTree::TakePrompts() { return std::exchange(roots_, {}); }

std::shared_ptr<const Constraint> ContextCopies::Make(std::string_view context,
                                                      std::span<const std::string> others) const {
  ConstraintOptions options;
  options.end_tokens = settings_.model->end_tokens();
  options.mask_bytes = size_t{4} << 20;
  return CopiesAfter(settings_.writer->answer_separator(), context, others, settings_.trie,
                     options);
}

std::shared_ptr<const Constraint> ContextCopies::OrNull(std::string_view context) {
  const auto [place, is_new] = made_.try_emplace({context.data(), context.size()});
  if (!is_new) return place->second;
  try {
    place->second = Make(context, {&model_.card->null_text, 1});
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::kLimit || !model_.may_exceed) throw;
  }
  return place->second;
}

std::shared_ptr<const Constraint> ContextCopies::Alone(std::string_view context) const {
  return Make(context, {});
}

}  // namespace banyan
