// A work whose rounds a test writes down, and a listener that writes down what it hears.
#pragma once

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tasks/job/record_run.h"

namespace banyan::testing_support {

// An answer that is asked for, in a prompt of its own.
struct FakeAnswer {
  std::uint64_t tag = 0;
  size_t row = 0;
  bool plain = false;
};

class FakeWork : public RecordWork {
 public:
  using Rounds = std::vector<std::vector<FakeAnswer>>;
  explicit FakeWork(Rounds rounds, std::vector<TokenId> tokens = {1})
      : rounds_(std::move(rounds)), tokens_(std::move(tokens)) {
    for (const auto& round : rounds_) {
      for (const FakeAnswer& answer : round) {
        answers_[answer.tag] = answer;
        said_.resize(std::max(said_.size(), answer.row + 1));
      }
    }
  }

  std::vector<PromptSegment> NextPrompts() override {
    if (next_ == fails_at) Throw(ErrorKind::kLimit, "round {} fails", next_);
    std::vector<PromptSegment> prompts;
    if (next_ == rounds_.size()) return prompts;
    for (const FakeAnswer& answer : rounds_[next_++]) {
      PromptSegment& prompt = prompts.emplace_back();
      prompt.tokens = tokens_;
      prompt.tokens.push_back(static_cast<TokenId>(2 + answer.row));
      AnswerRequest& request = prompt.answers.emplace_back();
      request.tag = answer.tag;
      request.max_new = max_new;
    }
    return prompts;
  }
  void Take(Answer answer) override {
    std::string& said = said_[answers_.at(answer.tag).row];
    said += answer.text;
    for (const TokenId token : answer.tokens) said += fmt::format(" {}", token);
    taken_.insert(answer.tag);
  }
  void Refuse(const Error& error) override { refused_ = error.what(); }

  std::int64_t row_count() const override { return static_cast<std::int64_t>(said_.size()); }
  OutputRow Row(size_t row) override {
    OutputRow made;
    made.error = !refused_.empty();
    made.fields[made.error ? "error" : "answer"] = made.error ? refused_ : said_[row];
    return made;
  }
  // What is asked in this round and later ones is not there yet.
  bool IsAnswered(size_t row) const override {
    for (const auto& [tag, answer] : answers_) {
      if (answer.row == row && !taken_.contains(tag)) return false;
    }
    return true;
  }
  size_t RowOf(std::uint64_t tag) const override { return answers_.at(tag).row; }
  bool IsPlain(std::uint64_t tag) const override { return answers_.at(tag).plain; }

  size_t fails_at = ~size_t{0};  // NextPrompts throws in this round
  int max_new = 4;

 private:
  Rounds rounds_;
  std::vector<TokenId> tokens_;
  size_t next_ = 0;
  std::map<std::uint64_t, FakeAnswer> answers_;  // by tag
  std::set<std::uint64_t> taken_;
  std::vector<std::string> said_;  // [rows]
  std::string refused_;
};

// "row 3.1: text|rest" is row 1 of record 3.
class HeardEvents : public RecordListener {
 public:
  void Asks(std::uint64_t record, std::span<const RecordPrompt> prompts) override {
    heard.push_back(fmt::format("asks {}: {}", record, prompts.size()));
  }
  void Text(std::uint64_t record, size_t row, std::string text) override {
    heard.push_back(fmt::format("text {}.{}: {}", record, row, text));
  }
  void Row(std::uint64_t record, size_t row, OutputRow made, std::string rest) override {
    const char* field = made.error ? "error" : "answer";
    heard.push_back(fmt::format("row {}.{}: {}|{}", record, row,
                                made.fields.at(field).get<std::string>(), rest));
  }
  void Cancelled(std::uint64_t record, size_t row, std::string rest) override {
    heard.push_back(fmt::format("cancelled {}.{}: {}", record, row, rest));
  }
  void Done(std::uint64_t record) override { heard.push_back(fmt::format("done {}", record)); }

  // Since it was asked last.
  std::vector<std::string> New() { return std::exchange(heard, {}); }
  std::vector<std::string> heard;
};

inline AnswerEvent TextEvent(std::uint64_t tag, const std::string& text) {
  AnswerEvent event;
  event.tag = tag;
  event.text = text;
  return event;
}

// The end of an answer whose text is `text`, of which `last` was not sent yet.
inline AnswerEvent EndEvent(std::uint64_t tag, const std::string& text,
                            const std::string& last = "",
                            FinishReason finish = FinishReason::kStopToken) {
  AnswerEvent event = TextEvent(tag, last);
  event.ended = true;
  event.answer.tag = tag;
  event.answer.text = text;
  event.answer.finish = finish;
  return event;
}

}  // namespace banyan::testing_support
