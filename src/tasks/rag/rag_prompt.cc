// Segments are tokenised apart; a document that is too long loses its last tokens.
#include "tasks/rag/rag_prompt.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "tasks/prompt/document_fitter.h"
#include "text/unicode.h"

namespace banyan {
namespace {

AskOptions WriterOptions(const RagOptions& options, const std::string& instruction) {
  AskOptions writer;
  writer.instruction = instruction;
  writer.chat = options.chat;
  return writer;
}

// The text with every run of white space as one space, and a line's end.
void AddOneSpaced(std::string_view text, std::string& out) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Character character = ReadUtf8(text, at);
    const bool space = character.valid && IsWhitespace(character.code);
    if (!space) out += text.substr(at, character.length);
    if (space && !out.ends_with(' ')) out += ' ';
    at += character.length;
  }
  out += '\n';
}

constexpr size_t kMostCopiedBytes = 160 << 10;  // 256 paragraphs

// Spans of these documents; of several, also joined ones.
std::shared_ptr<const Constraint> CopiesOf(const RagSettings& settings, const RagRecord& record,
                                           const std::vector<size_t>& documents) {
  std::vector<std::string_view> texts;
  for (const size_t document : documents) texts.emplace_back(record.documents[document].text);
  const std::vector<std::string> nothing = {"null"};  // as SaysNothing reads it
  ConstraintOptions options;
  options.end_tokens = settings.model->end_tokens();
  options.mask_bytes = size_t{4} << 20;
  options.joined = documents.size() > 1;
  return Constraint::FromCopies(texts, nothing, settings.trie, options);
}

PromptSegment Segment(std::vector<TokenId> tokens) {
  PromptSegment segment;
  segment.tokens = std::move(tokens);
  return segment;
}

}  // namespace

RagPrompt::RagPrompt(std::shared_ptr<const Text> text, const RagOptions& options,
                     const std::string& instruction)
    : text_(text), instruction_(instruction), writer_(text, WriterOptions(options, instruction)) {
  if (writer_.uses_chat() || !text_->bos()) return;
  const std::vector<TokenId> added = text_->Encode("", /*add_special=*/true, true);
  if (!added.empty() && added.front() == *text_->bos()) bos_ = {added.front()};
}

std::vector<TokenId> RagPrompt::TokensOf(const std::vector<PromptPart>& parts,
                                         PromptLevel level) const {
  std::vector<TextPiece> pieces;
  for (const PromptPart& part : parts) {
    if (part.level == level) pieces.push_back({part.text, part.from_user});
  }
  if (pieces.empty()) return {};
  return level == PromptLevel::kShared ? text_->EncodePieces(pieces) : text_->EncodeRest(pieces);
}

RagSegments RagPrompt::Encode(std::string_view document, const std::string& question) const {
  // Without a document, the text between the system prompt and the question belongs to the
  // question, as with one.
  const std::string_view shown = document.empty() ? "-" : document;
  const std::vector<PromptPart> parts =
      writer_.Write([&](const std::string& name) -> std::optional<PromptVariable> {
        if (name == "context") return PromptVariable{shown, PromptLevel::kRecord};
        if (name == "question") return PromptVariable{question, PromptLevel::kQuestion};
        if (name == "instruction") return PromptVariable{instruction_, PromptLevel::kShared};
        return std::nullopt;
      });
  RagSegments segments;
  segments.system = bos_;
  const std::vector<TokenId> system = TokensOf(parts, PromptLevel::kShared);
  segments.system.insert(segments.system.end(), system.begin(), system.end());
  if (!document.empty()) segments.document = TokensOf(parts, PromptLevel::kRecord);
  segments.question = TokensOf(parts, PromptLevel::kQuestion);
  return segments;
}

std::vector<TokenId> NullTokens(const Text& text, std::string_view separator,
                                std::span<const TokenId> end_tokens) {
  std::set<TokenId> tokens(end_tokens.begin(), end_tokens.end());
  const auto encode = [&](const std::string& spelling) {
    const std::vector<TextPiece> pieces = {{spelling, /*from_user=*/true}};
    return text.EncodeRest(pieces);
  };
  const std::vector<TokenId> usual = encode(std::string(separator) + "null");
  if (!usual.empty()) tokens.insert(usual.front());
  for (const char* spelling : {"null", " null", "Null", " Null", "NULL", " NULL"}) {
    const std::vector<TokenId> whole = encode(spelling);
    if (whole.size() == 1) tokens.insert(whole.front());
  }
  return {tokens.begin(), tokens.end()};
}

// How large the automaton is depends on how the texts repeat themselves, too: half of what was too
// much is tried next.
void KeepWhatCanBeCopied(const RagSettings& settings, RagRecord& record) {
  const size_t dropped = record.dropped.size();
  const bool from_any = settings.options.method != RagMethod::kTop1;
  for (size_t bytes = record.KeepWithin(kMostCopiedBytes);; bytes = record.KeepWithin(bytes / 2)) {
    try {
      if (from_any) record.copies = CopiesOf(settings, record, record.AllDocuments());
      break;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kLimit) throw;
      if (record.documents.size() > 1) continue;
      Throw(ErrorKind::kLimit, "document {}: {}", DumpJson(record.documents.front().id),
            error.what());
    }
  }
  if (record.dropped.size() == dropped) return;
  const bool equal = settings.options.relevance == RelevanceFrom::kEqual;
  record.SayDropped(fmt::format("more text than answers can be copied from: the {}",
                                equal ? "last" : "least relevant"));
}

AnswerRequest RagRequests::Request(std::uint64_t tag,
                                   const std::vector<size_t>& copied_from) const {
  AnswerRequest request;
  request.tag = tag;
  request.max_new = settings_.options.max_new;
  request.stop_tokens = settings_.model->end_tokens();
  request.stop_strings = settings_.options.stop;
  if (!settings_.copies) return request;
  const bool all = copied_from.size() == record_.documents.size();
  request.constraint =
      all && record_.copies ? record_.copies : CopiesOf(settings_, record_, copied_from);
  return request;
}

// An expert that copies says nothing that its own documents do not have.
ExpertRequest RagRequests::Expert(std::uint64_t tag, const std::vector<size_t>& read) const {
  ExpertRequest expert{tag, record_.documents[read.front()].relevance};
  const bool words = settings_.options.panel.switching == SwitchRule::kWord;
  if (!settings_.copies || !words) return expert;
  for (const size_t document : read)
    AddOneSpaced(record_.documents[document].text, expert.own_text);
  return expert;
}

PromptSegment RagRequests::Experts(std::uint64_t tag, std::optional<size_t> left_out) {
  RagSegments segments = settings_.prompt->Encode("", record_.question);
  PromptSegment root = Segment(segments.system);
  root.keep_as = "system";
  const std::vector<size_t> read = record_.AllDocuments(left_out);
  for (const size_t i : read) {
    const RagDocument& document = record_.documents[i];
    segments.document = settings_.prompt->Encode(document.Shown(), record_.question).document;
    PromptSegment& branch = root.below.emplace_back(Segment(Fitted(segments, document.id)));
    branch.keep_as =
        document.id.is_string() ? document.id.get<std::string>() : DumpJson(document.id);
    PromptSegment& leaf = branch.below.emplace_back(Segment(segments.question));
    leaf.experts.push_back(Expert(tag, {i}));
  }
  const std::vector<size_t> together = record_.Together(settings_.options.together, left_out);
  if (!together.empty()) {
    const std::string text =
        record_.Joined(together, [&](size_t i) { return record_.documents[i].Shown(); });
    segments.document = settings_.prompt->Encode(text, record_.question).document;
    PromptSegment& branch = root.below.emplace_back(Segment(Fitted(segments, Json("together"))));
    PromptSegment& leaf = branch.below.emplace_back(Segment(segments.question));
    leaf.experts.push_back(Expert(tag, together));
  }
  PromptSegment& prior = root.below.emplace_back(Segment(segments.question));
  prior.answers.push_back(Request(tag, read));
  if (!read.empty()) prior.answers.back().panel = settings_.options.panel;
  return root;
}

PromptSegment RagRequests::OfEach(const RagPrompt& prompt, const std::vector<size_t>& documents) {
  PromptSegment root;
  for (const size_t read : documents) {
    const RagDocument& document = record_.documents[read];
    const RagSegments segments = prompt.Encode(document.Shown(), record_.question);
    root.tokens = segments.system;
    PromptSegment& branch = root.below.emplace_back(Segment(Fitted(segments, document.id)));
    PromptSegment& leaf = branch.below.emplace_back(Segment(segments.question));
    leaf.answers.push_back(Request(root.below.size(), {read}));
  }
  return root;
}

PromptSegment RagRequests::Alone(std::vector<size_t> documents, size_t source,
                                 const std::vector<TokenId>& said) {
  if (!said.empty()) documents.push_back(source);
  PromptSegment root = OfEach(*settings_.prompt, documents);
  if (said.empty()) return root;
  AnswerRequest& scored = root.below.back().below.front().answers.front();
  scored.tag = kScoredTag;
  scored.forced = said;
  return root;
}

PromptSegment RagRequests::Notes() { return OfEach(*settings_.map_prompt, record_.AllDocuments()); }

PromptSegment RagRequests::Over(const std::string& text, std::uint64_t tag,
                                const std::vector<size_t>& documents) {
  AnswerRequest request = Request(tag, documents);
  const RagSegments segments = settings_.prompt->Encode(text, record_.question);
  PromptSegment root = Segment(segments.system);
  PromptSegment& context = root.below.emplace_back(Segment(Fitted(segments, Json("all"))));
  context.below.push_back(Segment(segments.question));
  context.below.back().answers.push_back(std::move(request));
  return root;
}

Answer RagRequests::AnswerKvConcat(std::uint64_t tag) {
  KvConcatPrompt prompt;
  for (const RagDocument& document : record_.documents) {
    RagSegments segments = settings_.prompt->Encode(document.Shown(), record_.question);
    prompt.documents.push_back(Fitted(segments, document.id));
    prompt.system = std::move(segments.system);
    prompt.question = std::move(segments.question);
  }
  return settings_.kv_concat->Ask(prompt, Request(tag, {}));
}

// The document's tokens, as many as the model's context has room for.
std::vector<TokenId> RagRequests::Fitted(const RagSegments& segments, const Json& document) {
  const auto window = static_cast<std::int64_t>(settings_.model->context_length());
  const auto needed = static_cast<std::int64_t>(segments.size()) + settings_.options.max_new;
  if (needed <= window) return segments.document;
  const std::int64_t room =
      FittingTokens(static_cast<std::int64_t>(segments.document.size()), needed, window);
  if (settings_.options.too_long == TooLong::kFail || room <= 0) {
    Throw(ErrorKind::kLimit,
          "too long: document {} makes a prompt of {} tokens and the answer may need {}; the "
          "model's context holds {} (see --too-long)",
          DumpJson(document), segments.size(), settings_.options.max_new, window);
  }
  if (std::ranges::find(truncated_, document) == truncated_.end()) truncated_.push_back(document);
  return {segments.document.begin(), segments.document.begin() + room};
}

}  // namespace banyan
