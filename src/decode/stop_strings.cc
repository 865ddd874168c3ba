#include "decode/stop_strings.h"

#include <algorithm>

namespace banyan {

StopStrings::StopStrings(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stops)
    : decoder_(std::move(tokenizer), /*skip_special=*/true), stops_(std::move(stops)) {
  for (const std::string& stop : stops_) longest_ = std::max(longest_, stop.size());
}

bool StopStrings::Push(TokenId token) {
  text_ += decoder_.Push(token);
  return Search();
}

// The earliest stop string ends the answer; of two at one place it makes no difference.
bool StopStrings::Search() {
  size_t found = std::string::npos;
  for (const std::string& stop : stops_) found = std::min(found, text_.find(stop, searched_));
  if (found != std::string::npos) {
    text_.resize(found);
    stopped_ = true;
    return true;
  }
  if (text_.size() >= longest_) searched_ = text_.size() - longest_ + 1;
  return false;
}

std::string StopStrings::Finish() {
  if (!stopped_) {
    text_ += decoder_.Finish();
    Search();
  }
  return text_;
}

}  // namespace banyan
