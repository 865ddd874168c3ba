// One record whose answers are shown while they are written.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "banyan/ask_session.h"
#include "tasks/ask_task.h"

namespace banyan {

class LiveRecord {
 public:
  static constexpr int kTagBits = 24;  // of a record's own tags; its sequence stands above them

  // A row that cannot be asked fails when it is shown.
  LiveRecord(AskTask& task, const Model& model, InputRow row, std::uint64_t sequence);

  std::uint64_t sequence() const { return sequence_; }
  void SubmitTo(Engine& engine);
  void CancelIn(Engine& engine);
  void Take(AnswerEvent event);
  // Shows what is new, question after question; true when all was shown.
  bool Show(bool name_document, AskListener& listener, AskTotals& totals);
  bool has_text() const;
  // SubmitTo has more to submit, now that all answers are there.
  bool WantsMore() const {
    return work_ && work_->WantsMore();
  }  // of the question that is being shown

 private:
  struct Question {
    LiveText text;         // of its only answer, as far as it was written
    std::string showable;  // of it, not shown yet
    bool announced = false;
    bool cancelled = false;
  };
  void ShowEnd(size_t index, AskListener& listener, AskTotals& totals);

  std::uint64_t sequence_;
  std::string id_, problem_;
  std::string adapter_;            // that the row names; empty: none
  std::unique_ptr<AskWork> work_;  // null: there is a problem
  std::vector<RequestId> requests_;
  std::vector<Question> questions_;
  size_t current_ = 0;  // the question that is being shown
  bool named_ = false;
};

}  // namespace banyan
