#include "tasks/job/live_text.h"

#include <algorithm>
#include <utility>

#include "base/characters.h"
#include "tasks/job/null_answer.h"

namespace banyan {

std::string_view LiveText::Answer() const { return Trimmed(text_); }

std::string LiveText::TakeUntil(size_t end) {
  if (end <= taken_) return {};
  const size_t from = std::exchange(taken_, end);
  return std::string(Answer().substr(from, end - from));
}

std::string LiveText::Take(const Rules& rules) {
  const std::string_view answer = Answer();
  if (!rules.sure || MayBecomeNothing(answer, rules.null_text)) return {};
  size_t end = answer.size();
  // With a space after it the last word is whole.
  const bool ended = kSpaces.find(text_.back()) != std::string_view::npos;
  if (rules.whole_words && !ended) {
    end = answer.find_last_of(kSpaces);
    if (end == std::string_view::npos) return {};
    end = answer.find_last_not_of(kSpaces, end) + 1;
  }
  return TakeUntil(end);
}

std::string LiveText::TakeAll() { return TakeUntil(Answer().size()); }

std::string LiveText::TakeRest(std::string_view answer) {
  // What was shown is how the answer begins, unless the row has another one.
  const std::string_view shown = Answer().substr(0, taken_);
  if (!answer.starts_with(shown)) return {};
  taken_ = std::max(taken_, answer.size());
  return std::string(answer.substr(shown.size()));
}

}  // namespace banyan
