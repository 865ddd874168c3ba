// Documents and the model's context: what fits is read whole, what does not is cut or divided at
// paragraphs.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json_row.h"
#include "tasks/extract/extract_work.h"
#include "tasks/prompt/prompt_encoder.h"

namespace banyan {
namespace {

constexpr size_t kMostDocumentParts = 10'000;

// The longest beginning of at most so many bytes that ends between characters.
std::string_view CutAt(std::string_view text, size_t bytes) {
  if (bytes >= text.size()) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

// The same, ending after a paragraph, else after a line, a sentence or a word, if one ends in the
// second half.
std::string_view CutAtParagraph(std::string_view text, size_t bytes) {
  if (bytes >= text.size()) return text;
  const std::string_view most = CutAt(text, bytes);
  for (const std::string_view end : {"\n\n", "\n", ". ", " "}) {
    const size_t found = most.rfind(end);
    if (found == std::string_view::npos || found < most.size() / 2) continue;
    return most.substr(0, found + end.size());
  }
  return most;
}

}  // namespace

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
  const std::string text =
      settings_.options.stack > 1 ? WriteDocuments(documents) : std::string(documents.front());
  return encoder.get()->Encode(Write(text));
}

std::vector<SlotGroup> ExtractWork::Groups() const {
  // The last stack of a category may be smaller than its plan.
  if (settings_.options.stack > 1) return {{0, slots()}};
  return plan_.groups;
}

// Positions that the longest template takes with its values.
std::int64_t ExtractWork::TokensAfterPrompt() const {
  if (sequential()) {
    return static_cast<std::int64_t>(plan_.slots.front().tokens.size()) + plan_.sequence_tokens;
  }
  const bool gaps = together() || settings_.options.gaps;
  std::int64_t most = 0;
  for (const SlotGroup& group : Groups()) {
    std::int64_t tokens = 0, largest = 0;
    for (size_t i = group.begin; i < group.end; ++i) {
      tokens += static_cast<std::int64_t>(plan_.slots[i].tokens.size());
      if (gaps) tokens += plan_.slots[i].max_tokens;
      largest = std::max<std::int64_t>(largest, plan_.slots[i].max_tokens);
    }
    most = std::max(most, tokens + (gaps ? 0 : largest));
  }
  return most;
}

bool ExtractWork::FitsWindow(const EncodedPrompt& prompt) const {
  const auto tokens = static_cast<std::int64_t>(prompt.tokens.size());
  return tokens + TokensAfterPrompt() <= settings_.model->context_length();
}

void ExtractWork::RefuseLength(std::int64_t tokens) const {
  Throw(ErrorKind::kLimit,
        "too long: the prompt has {} tokens, its template and values need {}; the model's context "
        "holds {} (see --too-long{})",
        tokens, TokensAfterPrompt(), settings_.model->context_length(),
        settings_.options.stack > 1 ? " and --stack" : "");
}

// All documents in one prompt, cut where the options say so.
void ExtractWork::FitWhole() {
  const std::int64_t window = settings_.model->context_length();
  const bool truncate = settings_.options.too_long == TooLong::kTruncate;
  Part& part = parts_.emplace_back();
  const size_t most = static_cast<size_t>(window) * kMostBytesOfToken;
  for (const ExtractRecord& record : records_) {
    const std::string_view document = record.text;
    if (document.size() > most && !truncate) {
      RefuseLength(static_cast<std::int64_t>(document.size() / kMostBytesOfToken));
    }
    part.documents.push_back(CutAt(document, most));
  }
  // Every round cuts what is too much off the longest document at the documents' own rate, and a
  // little more.
  for (part.prompt = Encode(part.documents); !FitsWindow(part.prompt);
       part.prompt = Encode(part.documents)) {
    const auto tokens = static_cast<std::int64_t>(part.prompt.tokens.size());
    size_t bytes = 0;
    for (const std::string_view document : part.documents) bytes += document.size();
    std::string_view& longest = *std::ranges::max_element(
        part.documents, {}, [](std::string_view document) { return document.size(); });
    if (!truncate || longest.empty()) RefuseLength(tokens);
    const auto too_many = static_cast<double>(tokens + TokensAfterPrompt() - window);
    const double rate = static_cast<double>(bytes) / static_cast<double>(tokens);
    const auto cut = static_cast<size_t>(std::ceil(too_many * rate)) + 1;
    longest = CutAt(longest, longest.size() - std::min(cut, longest.size()));
  }
  for (size_t i = 0; i < records_.size(); ++i) {
    cut_bytes_[i] = records_[i].text.size() - part.documents[i].size();
  }
}

// One document in as many parts as it needs. How many bytes fit is guessed from the parts before.
void ExtractWork::FitParts() {
  const std::string_view text = records_.front().text;
  const std::string_view nothing;
  const auto around = static_cast<std::int64_t>(Encode({&nothing, 1}).tokens.size());
  const std::int64_t room = settings_.model->context_length() - TokensAfterPrompt() - around;
  if (room <= 0) RefuseLength(around);
  double bytes_of_token = 4.0;
  for (size_t at = 0; at < text.size() || parts_.empty();) {
    if (parts_.size() == kMostDocumentParts) {
      Throw(ErrorKind::kLimit, "too long: the document has more than {} parts", kMostDocumentParts);
    }
    auto bytes = static_cast<size_t>(static_cast<double>(room) * bytes_of_token);
    Part part;
    while (true) {
      const std::string_view cut = CutAtParagraph(text.substr(at), std::max<size_t>(bytes, 1));
      part.documents = {cut};
      part.prompt = Encode(part.documents);
      if (FitsWindow(part.prompt)) break;
      if (cut.size() <= 4) RefuseLength(static_cast<std::int64_t>(part.prompt.tokens.size()));
      const auto used =
          static_cast<double>(part.prompt.tokens.size()) - static_cast<double>(around);
      bytes_of_token = static_cast<double>(cut.size()) / std::max(used, 1.0);
      const auto fitting = static_cast<size_t>(static_cast<double>(room) * bytes_of_token);
      bytes = std::min(fitting, cut.size() - std::max<size_t>(cut.size() / 16, 1));
    }
    part.begin = at;
    at += part.documents.front().size();
    parts_.push_back(std::move(part));
    if (text.empty()) break;
  }
}

}  // namespace banyan
