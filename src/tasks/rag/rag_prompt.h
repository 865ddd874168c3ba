// The prompts of `rag` in segments: system ‖ document ‖ question, each tokenised for itself, so
// that a document's tokens (and its KV) do not depend on what is asked of it; and the requests of a
// record.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/constrain.h"
#include "banyan/engine.h"
#include "banyan/model.h"
#include "banyan/rag.h"
#include "banyan/text.h"
#include "banyan/types.h"
#include "engine/kv_concat.h"
#include "tasks/prompt/prompt.h"
#include "tasks/rag/rag_record.h"

namespace banyan {

struct RagSegments {
  std::vector<TokenId> system, document, question;

  size_t size() const { return system.size() + document.size() + question.size(); }
};

class RagPrompt {
 public:
  RagPrompt(std::shared_ptr<const Text> text, const RagOptions& options,
            const std::string& instruction);

  // With an empty document: system and question alone.
  RagSegments Encode(std::string_view document, const std::string& question) const;
  bool uses_chat() const { return writer_.uses_chat(); }
  std::string_view answer_separator() const { return writer_.answer_separator(); }

 private:
  std::vector<TokenId> TokensOf(const std::vector<PromptPart>& parts, PromptLevel level) const;

  std::shared_ptr<const Text> text_;
  std::string instruction_;
  PromptWriter writer_;
  std::vector<TokenId> bos_;  // the token that begins a prompt without a chat; empty: none
};

// The tokens that an answer which says nothing (SaysNothing) begins with, rising: `null` as the
// tokenizer writes it after a prompt, other spellings of it that are one token, and the ends of an
// answer without words. `separator` is what an answer begins with (PromptWriter). The panel of
// experts knows by them that a document does not have the answer.
std::vector<TokenId> NullTokens(const Text& text, std::string_view separator,
                                std::span<const TokenId> end_tokens);

// What all records of a job have in common; several threads work on records at once.
struct RagSettings {
  RagOptions options;
  std::shared_ptr<Model> model;
  std::shared_ptr<const Text> text;
  std::unique_ptr<RagPrompt> prompt;      // of answers
  std::unique_ptr<RagPrompt> map_prompt;  // of map-reduce's first stage
  std::unique_ptr<Retriever> retriever;
  std::unique_ptr<KvConcat> kv_concat;    // of kv-concat; else null
  bool copies = false;                    // answers are spans of documents
  bool in_haste = false;                  // few documents answer alone beside all together
  std::shared_ptr<const TokenTrie> trie;  // for answers that are copied; else null
};

// REQUIRES: settings.copies. Drops documents whose spans would make too large an automaton together
// with those of more relevant ones, and says why; makes record.copies where an answer may come from
// any document. Throws kLimit for one document that is too long.
void KeepWhatCanBeCopied(const RagSettings& settings, RagRecord& record);

// The prompts of one record, with the requests for its answers.
class RagRequests {
 public:
  RagRequests(const RagSettings& settings, const RagRecord& record)
      : settings_(settings), record_(record) {}

  // system → document → question for every expert, system → question for the prior. Documents stand
  // right after the system prompt, so questions that read the same ones share their KV. Where the
  // one document is left out the prior answers alone.
  PromptSegment Experts(std::uint64_t tag, std::optional<size_t> left_out = std::nullopt);
  static constexpr std::uint64_t kScoredTag = 1 << 20;
  // What documents answer alone, tagged with their places in `documents`, from 1; and, tagged with
  // kScoredTag, what `source` says to the tokens `said`, if there are any.
  PromptSegment Alone(std::vector<size_t> documents, size_t source,
                      const std::vector<TokenId>& said);
  // A note of each document, tagged with its number, from 1.
  PromptSegment Notes();
  // The question over one text, which is made of these documents.
  PromptSegment Over(const std::string& text, std::uint64_t tag,
                     const std::vector<size_t>& documents);
  // The answer of kv-concat, without the scheduler: documents that do not see one another cannot be
  // one path of a prompt tree.
  Answer AnswerKvConcat(std::uint64_t tag);

  // Ids of documents that were cut to fit.
  const std::vector<Json>& truncated() const { return truncated_; }

 private:
  // An answer of each document, tagged with its place in `documents`, from 1.
  PromptSegment OfEach(const RagPrompt& prompt, const std::vector<size_t>& documents);
  std::vector<TokenId> Fitted(const RagSegments& segments, const Json& document);
  AnswerRequest Request(std::uint64_t tag, const std::vector<size_t>& copied_from) const;
  ExpertRequest Expert(std::uint64_t tag, const std::vector<size_t>& read) const;

  const RagSettings& settings_;
  const RagRecord& record_;
  std::vector<Json> truncated_;
};

}  // namespace banyan
