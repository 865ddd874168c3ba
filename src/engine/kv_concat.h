// KV concatenation (rag --method kv-concat): an answer over documents whose keys and values were
// computed apart, without cross-attention between them. One answer at a time, nothing is kept.
//
//   system ─┬─ document 1 ─┐
//           ├─ document 2 ─┼─ question ─ answer
//           └─ document 3 ─┘
//
// Every document stands right after the system prompt and has seen nothing but it, so all begin at
// the same position; the question comes after the longest, and it and the answer see all of them.
// With one document this is that document's prompt, bit for bit.
//
// Documents side by side get another share of the attention than in one prompt. Adaptive Parallel
// Encoding answers with two numbers for the rows of question and answer: their scores of document
// tokens are divided by a temperature, and the log-sum-exp of all these scores is multiplied by a
// scale before it meets that of the system prompt and the rows' own text.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "banyan/answer.h"
#include "banyan/model.h"
#include "banyan/request.h"

namespace banyan {

struct KvConcatPrompt {
  std::vector<TokenId> system;
  std::vector<std::vector<TokenId>> documents;
  std::vector<TokenId> question;  // not empty
};

// 1 and 1: attention as it is, bit for bit.
struct KvConcatOptions {
  double temperature = 1.0;  // above 0; below 1 sharpens
  double scale = 1.0;
};

class KvConcat {
 public:
  explicit KvConcat(std::shared_ptr<Model> model, const KvConcatOptions& options = {});
  ~KvConcat();

  // Greedy: of the request max_new, stop tokens, stop strings and the tag count. From any thread,
  // one call at a time; no engine may compute with the model meanwhile. Throws kLimit when the
  // positions of system, longest document, question and answer are more than the model's context.
  Answer Ask(const KvConcatPrompt& prompt, const AnswerRequest& wanted);

 private:
  struct Run;
  std::shared_ptr<Model> model_;
  const KvConcatOptions options_;
  std::mutex busy_;
};

}  // namespace banyan
