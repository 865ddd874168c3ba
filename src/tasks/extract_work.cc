#include "tasks/extract_work.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json_row.h"
#include "text/utf8.h"

namespace banyan {
namespace {

constexpr size_t kMostBytesOfToken = 256;  // as in ask_work.cc

// The longest beginning of at most so many bytes that ends between characters.
std::string_view CutAt(std::string_view text, size_t bytes) {
  if (bytes >= text.size()) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

}  // namespace

ExtractWork::ExtractWork(const ExtractSettings& settings, ExtractRecord record)
    : settings_(settings), record_(std::move(record)) {
  const bool sequential = settings_.options.values == ValueMode::kSequential;
  answers_.resize(sequential ? 1 : record_.plan->slots.size());
}

std::vector<PromptPart> ExtractWork::Write(std::string_view document) {
  const auto shared = [](std::string_view text) {
    return PromptVariable{text, PromptLevel::kShared};
  };
  return settings_.writer->Write([&](const std::string& name) -> std::optional<PromptVariable> {
    if (name == "document" || name == "text") return PromptVariable{document, PromptLevel::kRecord};
    if (name == "question") return PromptVariable{"", PromptLevel::kQuestion};
    if (name == "instruction") return shared(record_.plan->instruction);
    if (name == "attributes") return shared(record_.plan->attributes);
    if (name == "examples") return shared(record_.plan->examples);
    if (name == "category") return shared(record_.plan->category->name);
    if (name == "names") return shared(record_.plan->names);
    if (name == "details") return shared(record_.plan->details);
    const auto carried = record_.carried.find(name);
    if (name != "id" && carried == record_.carried.end()) return std::nullopt;
    const Json& value = name == "id" ? record_.id : carried->second;
    texts_.push_back(value.is_string() ? value.get<std::string>() : DumpJson(value));
    return PromptVariable{texts_.back(), PromptLevel::kRecord};
  });
}

EncodedPrompt ExtractWork::Encode(std::string_view document) {
  const EncoderPool::Lease encoder = settings_.encoders->Take();
  return encoder.get()->Encode(Write(document));
}

// Positions that template and values take.
std::int64_t ExtractWork::TokensAfterPrompt() const {
  const CategoryPlan& plan = *record_.plan;
  if (plan.whole) {
    return static_cast<std::int64_t>(plan.slots.front().tokens.size()) + plan.whole_tokens;
  }
  const bool together = settings_.options.values == ValueMode::kSkeleton;
  std::int64_t tokens = 0, largest = 0;
  for (const ValueSlot& slot : plan.slots) {
    tokens += static_cast<std::int64_t>(slot.tokens.size());
    if (together || settings_.options.gaps) tokens += slot.max_tokens;
    largest = std::max<std::int64_t>(largest, slot.max_tokens);
  }
  return tokens + (together || settings_.options.gaps ? 0 : largest);
}

EncodedPrompt ExtractWork::EncodeWhatFits() {
  const std::int64_t window = settings_.model->context_length();
  const std::int64_t after = TokensAfterPrompt();
  const bool truncate = settings_.options.too_long == TooLong::kTruncate;
  const auto refuse = [&](std::int64_t tokens) {
    Throw(
        ErrorKind::kLimit,
        "too long: the prompt has {} tokens, its template and values need {}; the model's context "
        "holds {} (see --too-long)",
        tokens, after, window);
  };
  std::string_view document = record_.text;
  const size_t most = static_cast<size_t>(window) * kMostBytesOfToken;
  if (document.size() > most) {
    if (!truncate) refuse(static_cast<std::int64_t>(document.size() / kMostBytesOfToken));
    document = CutAt(document, most);
  }
  // Every round cuts what is too much at the document's own rate, and a little more.
  while (true) {
    EncodedPrompt prompt = Encode(document);
    const auto tokens = static_cast<std::int64_t>(prompt.tokens.size());
    const std::int64_t too_many = tokens + after - window;
    if (too_many <= 0) {
      cut_bytes_ = record_.text.size() - document.size();
      return prompt;
    }
    if (!truncate || document.empty()) refuse(tokens);
    const double rate = static_cast<double>(document.size()) / static_cast<double>(tokens);
    const auto cut = static_cast<size_t>(std::ceil(static_cast<double>(too_many) * rate)) + 1;
    document = CutAt(document, document.size() - std::min(cut, document.size()));
  }
}

AnswerRequest ExtractWork::RequestFor(size_t slot) const {
  AnswerRequest request;
  request.tag = slot;
  request.question_key = slot;
  request.max_new = record_.plan->slots[slot].max_tokens;
  request.constraint = record_.plan->slots[slot].constraint;
  request.stop_tokens = settings_.model->end_tokens();
  return request;
}

// `position`: where the prompt ends.
PromptSegment ExtractWork::Template(std::int64_t position) const {
  const CategoryPlan& plan = *record_.plan;
  PromptSegment first;
  if (plan.whole) {
    first.tokens = plan.slots.front().tokens;
    first.answers.push_back(RequestFor(0));
    first.answers.back().constraint = plan.whole;
    first.answers.back().max_new = plan.whole_tokens;
    return first;
  }
  const bool together = settings_.options.values == ValueMode::kSkeleton;
  PromptSegment* piece = &first;
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    if (i > 0) piece = &piece->below.emplace_back();
    piece->tokens = plan.slots[i].tokens;
    piece->answers.push_back(RequestFor(i));
    if (!together && !settings_.options.gaps) continue;
    piece->first_position = static_cast<std::int32_t>(position);
    position += static_cast<std::int64_t>(piece->tokens.size()) + plan.slots[i].max_tokens;
  }
  first.skeleton = together;
  return first;
}

std::vector<PromptSegment> ExtractWork::NextPrompts() {
  if (std::exchange(started_, true)) return {};
  const EncodedPrompt prompt = EncodeWhatFits();
  prompt_tokens_ = static_cast<std::int64_t>(prompt.tokens.size());
  const auto begin = prompt.tokens.begin();
  const auto shared = begin + static_cast<std::ptrdiff_t>(prompt.shared_end);
  PromptSegment root;
  root.tokens.assign(begin, shared);
  PromptSegment& document = root.below.emplace_back();
  document.tokens.assign(shared, prompt.tokens.end());
  document.below.push_back(Template(prompt_tokens_));
  std::vector<PromptSegment> prompts;
  prompts.push_back(std::move(root));
  return prompts;
}

void ExtractWork::Take(Answer answer) {
  if (answer.finish == FinishReason::kError && !problem_) {
    problem_ = {ErrorKind::kLimit, answer.error};
  }
  answers_[answer.tag] = std::move(answer);
}

void ExtractWork::Refuse(const Error& error) { problem_ = {error.kind(), error.what()}; }

std::string ExtractWork::Show() {
  std::string shown;
  for (const PromptPart& part : Write(record_.text)) shown += part.text;
  for (size_t i = 0; i < record_.plan->slots.size(); ++i) {
    shown += record_.plan->slots[i].piece + " …";
  }
  return shown + "}";
}

}  // namespace banyan
