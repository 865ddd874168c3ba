// One record on a terminal: what was heard of its questions, shown one question after another.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "program/ask_session.h"
#include "tasks/job/task.h"

namespace banyan {

class LiveRecord {
 public:
  LiveRecord(const InputRow& row, std::uint64_t number);

  std::uint64_t number() const { return number_; }

  // --- What a RecordListener hears of the record
  void Starts(const RecordWork& work);
  void Hear(size_t question, const std::string& text) { questions_[question].text += text; }
  void End(size_t question, OutputRow row, std::string rest);
  void Cancel(size_t question, const std::string& rest);

  // Shows what is new; true when all was shown.
  bool Show(bool name_document, AskListener& listener, AskTotals& totals);
  // Of the questions that were shown to their end.
  std::vector<OutputRow> TakeRows() { return std::move(rows_); }
  // Text of the question that is being shown is there.
  bool has_text() const { return current_ < questions_.size() && questions_[current_].has_text(); }

 private:
  struct Question {
    std::string asked;
    std::string text;              // heard, not shown yet
    std::optional<OutputRow> row;  // once it is answered
    std::string rest;              // of the row's answer, after the text
    bool announced = false, began = false, cancelled = false;
    bool has_text() const { return began || !text.empty(); }
  };
  void ShowEnd(Question& question, AskListener& listener, AskTotals& totals);

  std::uint64_t number_;
  std::string id_;
  std::string problem_;  // why the record cannot be asked
  std::vector<Question> questions_;
  std::vector<OutputRow> rows_;
  size_t current_ = 0;  // the question that is being shown
  bool named_ = false;
};

}  // namespace banyan
