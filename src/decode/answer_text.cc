#include "decode/answer_text.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace banyan {

AnswerText::AnswerText(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stops)
    : decoder_(std::move(tokenizer), /*skip_special=*/true), stops_(std::move(stops)) {
  for (const std::string& stop : stops_) longest_ = std::max(longest_, stop.size());
}

bool AnswerText::Push(TokenId token) {
  text_ += decoder_.Push(token);
  return Search();
}

// The earliest stop string ends the answer; of two at one place it makes no difference.
bool AnswerText::Search() {
  size_t found = std::string::npos;
  for (const std::string& stop : stops_) found = std::min(found, text_.find(stop, searched_));
  if (found != std::string::npos) {
    text_.resize(found);
    ended_ = true;
    return true;
  }
  if (longest_ > 0 && text_.size() >= longest_) searched_ = text_.size() - longest_ + 1;
  return false;
}

// Bytes at the end of the text with which a stop string begins.
size_t AnswerText::HeldBack() const {
  if (ended_) return 0;
  const std::string_view text = text_;
  size_t held = 0;
  for (const std::string& stop : stops_) {
    for (size_t size = std::min(stop.size() - 1, text.size()); size > held; --size) {
      if (!text.ends_with(std::string_view(stop).substr(0, size))) continue;
      held = size;
      break;
    }
  }
  return held;
}

std::string AnswerText::TakeShowable() {
  const size_t end = text_.size() - HeldBack();
  if (end <= shown_) return {};
  std::string piece = text_.substr(shown_, end - shown_);
  shown_ = end;
  return piece;
}

std::string AnswerText::Finish() {
  if (!ended_) {
    text_ += decoder_.Finish();
    Search();
    ended_ = true;
  }
  return text_;
}

}  // namespace banyan
