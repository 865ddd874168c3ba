// Interactive answers: in order, shown as they are generated, by an engine that keeps the documents
// in memory. For jobs whose rows go to a file or a program, use RunAsk.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "banyan/ask.h"
#include "banyan/engine.h"
#include "banyan/job.h"
#include "banyan/model.h"

namespace banyan {

// Receives answers in input order, whatever the order of computation: Document, then for
// each of its questions Question, pieces of Text, possibly Confidence, and one of the three
// ends.
class AskListener {
 public:
  virtual ~AskListener() = default;
  virtual void Document(const std::string& id) = 0;
  virtual void Question(const std::string& question) = 0;
  virtual void Text(const std::string& piece) = 0;
  // The probability that the answer that ends next is right, where the model's card tells it.
  virtual void Confidence(double) {}
  virtual void Answered(bool cut_short) = 0;             // the text is all there
  virtual void NoAnswer() = 0;                           // the document does not say
  virtual void Failed(const std::string& reason) = 0;    // also of a document that cannot be read
  virtual void Computing(std::int64_t done_tokens) = 0;  // nothing to show yet
  virtual void Notice(const std::string&) {}             // what a person should know
};

struct AskTotals {
  std::int64_t answers = 0, errors = 0;
  bool stopped = false;
  double seconds = 0.0;
  std::int64_t prompt_tokens = 0;    // as if every answer were asked alone
  std::int64_t computed_tokens = 0;  // of them
};

class AskSession {
 public:
  // Throws as RunAsk does.
  AskSession(std::shared_ptr<Model> model, const EngineOptions& engine_options,
             const AskOptions& ask);
  ~AskSession();

  // Answers the whole input. When job.stop returns true, cancels running answers and ends early.
  AskTotals Run(const JobOptions& job, AskListener& listener);

  // Reads the input's documents and computes them, so that questions are answered at once. Throws
  // kInput when one cannot be read, kLimit when one does not fit into the model's context. Nothing
  // is kept when `stop` says so: false.
  bool Read(const JobOptions& job, AskListener& listener);
  // One question, of every document that was read.
  AskTotals Ask(const std::string& question, const std::function<bool()>& stop,
                AskListener& listener);
  std::int64_t document_count() const;
  // Writes the rows of all questions so far, as RunAsk would: JSONL, CSV, TSV or Markdown by the
  // file's name. Returns how many. Throws kUsage when there are none, when the file holds something
  // and not `overwrite`, or for a name that says no format; kIo.
  std::int64_t Save(const std::string& path, bool overwrite) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace banyan
