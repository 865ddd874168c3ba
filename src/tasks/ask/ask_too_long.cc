// Questions whose context does not fit into the model's: it is cut, or asked about in parts.
#include <algorithm>

#include "base/error.h"
#include "tasks/ask/ask_work.h"
#include "tasks/prompt/text_cut.h"

namespace banyan {
namespace {

constexpr size_t kMostParts = 10'000;
constexpr size_t kWordBytes = 200;  // a cut is moved back to a space at most so far
}  // namespace

// Tokens that a prompt with a part may need.
std::int64_t AskWork::PartWindow(std::int64_t without) const {
  const std::int64_t window = settings_.model->context_length();
  const int tokens = settings_.options.part_tokens;
  return tokens > 0 ? std::min(window, without + tokens) : window;
}

// The longest beginning of the context, in bytes, with which the question fits. Tokens are not
// known without tokenising, so the length is approached from a guess. `without` is what the prompt
// needs without any context.
size_t AskWork::LongestFit(size_t question, std::string_view context, std::int64_t without) {
  // Other questions on the same stretch may meet its end with a token more.
  constexpr std::int64_t kSpareTokens = 4;
  const std::int64_t window = PartWindow(without) - kSpareTokens;
  // A long text is measured by its beginning: a token has a few bytes, rarely more than ten.
  size_t length = std::min(context.size(),
                           static_cast<size_t>(std::max<std::int64_t>(window - without, 1)) * 10);
  size_t fits = 0;
  size_t fails = context.size() + 1;
  for (int attempt = 0; attempt < 12 && length > fits && length < fails; ++attempt) {
    const size_t cut = CutPlace(context, length, kWordBytes);
    const std::int64_t needs = Needs(Encode(question, context.substr(0, cut)));
    const double share = static_cast<double>(window - without) /
                         static_cast<double>(std::max<std::int64_t>(needs - without, 1));
    if (needs <= window) {
      fits = std::max(fits, cut);
      if (cut == context.size() || share < 1.02) break;
    } else {
      fails = std::min(fails, length);
    }
    const auto guess = static_cast<size_t>(static_cast<double>(cut) * std::max(share, 0.0) * 0.995);
    length = std::clamp(guess, fits + 1, std::max(fits + 1, fails - 1));
  }
  if (fits == 0) {
    Throw(ErrorKind::kLimit, "too long: the question leaves no room for the context");
  }
  return fits;
}

// Stretches of the context that fit with the question: the first one, or all of it in parts that
// end with a paragraph where there is one in their last quarter, and overlap by a tenth or more, so
// that what stands across a cut is whole in one of them.
std::vector<std::string_view> AskWork::Stretches(size_t question, std::int64_t without) {
  const std::string_view context = record_.context;
  std::vector<std::string_view> stretches;
  size_t begin = 0;
  while (begin < context.size()) {
    if (stretches.size() == kMostParts) {
      Throw(ErrorKind::kLimit, "too long: the context needs more than {} parts", kMostParts);
    }
    size_t length = LongestFit(question, context.substr(begin), without);
    const bool last = begin + length >= context.size();
    if (settings_.options.too_long == TooLong::kSplit && !last) {
      length = CutPlace(context, begin + length, length / 4) - begin;
    }
    stretches.push_back(context.substr(begin, length));
    if (settings_.options.too_long == TooLong::kTruncate || last) break;
    const size_t next = CutPlace(context, begin + length - length / 10, length / 8);
    begin = next > begin ? next : begin + length;
  }
  return stretches;
}

// All questions get the same stretches, those of the longest one, so that they share them.
void AskWork::AskTooLong(const std::vector<size_t>& questions) {
  const std::int64_t window = settings_.model->context_length();
  std::int64_t most = -1;
  size_t longest = 0;
  for (const size_t question : questions) {
    Guarded(question, [&] {
      const std::int64_t without = Needs(Encode(question, ""));
      if (without >= window) {
        Throw(ErrorKind::kLimit,
              "too long: without any context the prompt and its answer need {} tokens; the model's "
              "context holds {}",
              without, window);
      }
      if (without > most) {
        most = without;
        longest = question;
      }
    });
  }
  if (most < 0) return;
  std::vector<std::string_view> stretches;
  Guarded(longest, [&] { stretches = Stretches(longest, most); });
  for (const size_t question : questions) {
    Guarded(question, [&] {
      if (asked_[longest].problem) {
        Throw(asked_[longest].problem->kind, "{}", asked_[longest].problem->message);
      }
      if (settings_.options.too_long == TooLong::kTruncate) {
        asked_[question].cut_bytes = record_.context.size() - stretches.front().size();
      }
    });
  }
  for (const size_t question : questions) {
    Guarded(question, [&] { AddPrior(question); });
  }
  for (const std::string_view stretch : stretches) {
    for (const size_t question : questions) {
      Guarded(question, [&] {
        const Prompt prompt = Encode(question, stretch);
        if (Needs(prompt) > window) {
          Throw(ErrorKind::kLimit,
                "too long: {} tokens for a part of the context; the model's "
                "context holds {}",
                Needs(prompt), window);
        }
        Add(question, prompt);
      });
    }
  }
}

}  // namespace banyan
