#include "tasks/extract_work.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json_row.h"
#include "tasks/prompt_encoder.h"
#include "text/utf8.h"

namespace banyan {
namespace {

// The longest beginning of at most so many bytes that ends between characters.
std::string_view CutAt(std::string_view text, size_t bytes) {
  if (bytes >= text.size()) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

}  // namespace

ExtractWork::ExtractWork(const ExtractSettings& settings, std::vector<ExtractRecord> records)
    : settings_(settings),
      plan_(*records.front().plan),
      records_(std::move(records)),
      cut_bytes_(records_.size()) {
  answers_.resize(plan_.whole ? 1 : slots());
}

// The last stack of a category may be smaller than its plan.
size_t ExtractWork::slots() const { return records_.size() * plan_.category->attributes.size(); }

std::string ExtractWork::DocumentText(std::span<const std::string_view> documents) const {
  return settings_.options.stack > 1 ? WriteDocuments(documents) : std::string(documents.front());
}

std::vector<PromptPart> ExtractWork::Write(std::string_view document) {
  const auto shared = [](std::string_view text) {
    return PromptVariable{text, PromptLevel::kShared};
  };
  return settings_.writer->Write([&](const std::string& name) -> std::optional<PromptVariable> {
    if (name == "document" || name == "text") return PromptVariable{document, PromptLevel::kRecord};
    if (name == "question") return PromptVariable{"", PromptLevel::kQuestion};
    if (name == "instruction") return shared(plan_.instruction);
    if (name == "attributes") return shared(plan_.attributes);
    if (name == "examples") return shared(plan_.examples);
    if (name == "category") return shared(plan_.category->name);
    if (name == "names") return shared(plan_.names);
    if (name == "details") return shared(plan_.details);
    const ExtractRecord& record = records_.front();  // the only one, where a template names fields
    const auto carried = record.carried.find(name);
    if (name != "id" && carried == record.carried.end()) return std::nullopt;
    texts_.push_back(TextOrJson(name == "id" ? record.id : carried->second));
    return PromptVariable{texts_.back(), PromptLevel::kRecord};
  });
}

EncodedPrompt ExtractWork::Encode(std::span<const std::string_view> documents) {
  const EncoderPool::Lease encoder = settings_.encoders->Take();
  const std::string text = DocumentText(documents);
  return encoder.get()->Encode(Write(text));
}

// Positions that template and values take.
std::int64_t ExtractWork::TokensAfterPrompt() const {
  if (plan_.whole) {
    return static_cast<std::int64_t>(plan_.slots.front().tokens.size()) + plan_.whole_tokens;
  }
  const bool together = settings_.options.values == ValueMode::kSkeleton;
  std::int64_t tokens = 0, largest = 0;
  for (const ValueSlot& slot : std::span(plan_.slots).first(slots())) {
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
        "holds {} (see --too-long{})",
        tokens, after, window, settings_.options.stack > 1 ? " and --stack" : "");
  };
  std::vector<std::string_view> documents;
  const size_t most = static_cast<size_t>(window) * kMostBytesOfToken;
  for (const ExtractRecord& record : records_) {
    const std::string_view document = record.text;
    if (document.size() > most && !truncate) {
      refuse(static_cast<std::int64_t>(document.size() / kMostBytesOfToken));
    }
    documents.push_back(CutAt(document, most));
  }
  // Every round cuts what is too much off the longest document at the documents' own rate, and a
  // little more.
  while (true) {
    EncodedPrompt prompt = Encode(documents);
    const auto tokens = static_cast<std::int64_t>(prompt.tokens.size());
    const std::int64_t too_many = tokens + after - window;
    if (too_many <= 0) {
      for (size_t i = 0; i < documents.size(); ++i) {
        cut_bytes_[i] = records_[i].text.size() - documents[i].size();
      }
      return prompt;
    }
    size_t bytes = 0;
    for (const std::string_view document : documents) bytes += document.size();
    std::string_view& longest = *std::ranges::max_element(
        documents, {}, [](std::string_view document) { return document.size(); });
    if (!truncate || longest.empty()) refuse(tokens);
    const double rate = static_cast<double>(bytes) / static_cast<double>(tokens);
    const auto cut = static_cast<size_t>(std::ceil(static_cast<double>(too_many) * rate)) + 1;
    longest = CutAt(longest, longest.size() - std::min(cut, longest.size()));
  }
}

AnswerRequest ExtractWork::RequestFor(size_t slot) const {
  AnswerRequest request;
  request.tag = slot;
  request.question_key = slot;
  request.max_new = plan_.slots[slot].max_tokens;
  request.constraint = plan_.slots[slot].constraint;
  request.stop_tokens = settings_.model->end_tokens();
  return request;
}

// `position`: where the prompt ends.
PromptSegment ExtractWork::Template(std::int64_t position) const {
  PromptSegment first;
  if (plan_.whole) {
    first.tokens = plan_.slots.front().tokens;
    first.answers.push_back(RequestFor(0));
    first.answers.back().constraint = plan_.whole;
    first.answers.back().max_new = plan_.whole_tokens;
    return first;
  }
  const bool together = settings_.options.values == ValueMode::kSkeleton;
  PromptSegment* piece = &first;
  for (size_t i = 0; i < slots(); ++i) {
    if (i > 0) piece = &piece->below.emplace_back();
    piece->tokens = plan_.slots[i].tokens;
    piece->answers.push_back(RequestFor(i));
    if (!together && !settings_.options.gaps) continue;
    piece->first_position = static_cast<std::int32_t>(position);
    position += static_cast<std::int64_t>(piece->tokens.size()) + plan_.slots[i].max_tokens;
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
  std::vector<std::string_view> documents;
  for (const ExtractRecord& record : records_) documents.push_back(record.text);
  const std::string text = DocumentText(documents);
  std::string shown;
  for (const PromptPart& part : Write(text)) shown += part.text;
  for (size_t i = 0; i < slots(); ++i) shown += plan_.slots[i].piece + " …";
  return shown + (settings_.options.stack > 1 ? "}}" : "}");
}

}  // namespace banyan
