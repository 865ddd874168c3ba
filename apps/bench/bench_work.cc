#include "bench_work.h"

#include <fmt/format.h>

#include <cctype>
#include <limits>
#include <random>

#include "banyan/error.h"

namespace banyan::app {
namespace {

constexpr int kMostCount = 1 << 24;

[[noreturn]] void Refuse(const std::string& text, const std::string& why) {
  throw Error(ErrorKind::kUsage,
              fmt::format("'{}': {}; expected such as '8 documents x 64 questions | 32, 2048, 256 "
                          "tokens'",
                          text, why));
}

// The numbers of one side of the bar: each followed by words, then a separator or the end.
std::vector<int> ReadNumbers(const std::string& text, const std::string& part, bool by_comma) {
  std::vector<int> numbers;
  size_t i = 0;
  const auto skip = [&](auto&& keep) {
    while (i < part.size() && keep(static_cast<unsigned char>(part[i]))) ++i;
  };
  const auto space = [](unsigned char c) { return std::isspace(c) != 0; };
  while (true) {
    skip(space);
    size_t digits = 0;
    std::int64_t number = 0;
    for (; i < part.size() && std::isdigit(static_cast<unsigned char>(part[i])); ++i, ++digits) {
      number = number * 10 + (part[i] - '0');
      if (number > kMostCount) Refuse(text, fmt::format("a number above {}", kMostCount));
    }
    if (digits == 0) Refuse(text, "a number is missing");
    if (number == 0) Refuse(text, "a number is zero");
    numbers.push_back(static_cast<int>(number));
    skip(space);
    // Words up to the separator; a lone x is one.
    while (i < part.size() && std::isalpha(static_cast<unsigned char>(part[i])) != 0) {
      const size_t word = i;
      skip([](unsigned char c) { return std::isalpha(c) != 0; });
      if (!by_comma && i - word == 1 && (part[word] == 'x' || part[word] == 'X')) {
        i = word;
        break;
      }
      skip(space);
    }
    if (i == part.size()) return numbers;
    const std::string times = "\u00d7";
    if (by_comma ? part[i] == ',' || part[i] == '/' : part[i] == 'x' || part[i] == 'X') {
      ++i;
    } else if (!by_comma && part.compare(i, times.size(), times) == 0) {
      i += times.size();
    } else {
      Refuse(text, fmt::format("'{}' is not understood", part.substr(i)));
    }
  }
}

class RequestMaker {
 public:
  RequestMaker(const Work& work, int streams, int vocab_size)
      : work_(work),
        left_(streams),
        vocab_(static_cast<std::uint64_t>(vocab_size)),
        random_(work.seed) {}

  void AddLevel(size_t level, std::vector<PromptSegment>& out) {
    for (int branch = 0; branch < work_.branches[level] && left_ > 0; ++branch) {
      PromptSegment segment;
      for (int i = 0; i < work_.lengths[level]; ++i) {
        segment.tokens.push_back(static_cast<TokenId>(random_() % vocab_));
      }
      if (level + 1 < work_.branches.size()) {
        AddLevel(level + 1, segment.below);
      } else {
        AnswerRequest answer;
        answer.tag = tag_++;
        answer.max_new = work_.max_new;
        segment.answers.push_back(std::move(answer));
        --left_;
      }
      out.push_back(std::move(segment));
    }
  }

 private:
  const Work& work_;
  int left_;
  std::uint64_t vocab_;
  std::mt19937_64 random_;
  std::uint64_t tag_ = 0;
};

}  // namespace

int Work::streams() const {
  std::int64_t streams = 1;
  for (const int count : branches) {
    streams = std::min<std::int64_t>(streams * count, std::numeric_limits<int>::max());
  }
  return static_cast<int>(streams);
}

std::int64_t Work::prompt_tokens() const {
  std::int64_t tokens = 0;
  for (const int length : lengths) tokens += length;
  return tokens;
}

std::string Work::Text() const {
  return fmt::format("{} | {} tokens, {} new", fmt::join(branches, " x "), fmt::join(lengths, ", "),
                     max_new);
}

Work ParseWork(const std::string& text) {
  const size_t bar = text.find('|');
  if (bar == std::string::npos) Refuse(text, "no bar between counts and lengths");
  Work work;
  work.branches = ReadNumbers(text, text.substr(0, bar), false);
  work.lengths = ReadNumbers(text, text.substr(bar + 1), true);
  if (work.lengths.size() == work.branches.size() + 1) {
    work.branches.insert(work.branches.begin(), 1);
  }
  if (work.lengths.size() != work.branches.size()) {
    Refuse(text,
           fmt::format("{} counts and {} lengths", work.branches.size(), work.lengths.size()));
  }
  if (work.streams() > kMostCount) Refuse(text, fmt::format("more than {} streams", kMostCount));
  work.name = "tree";
  return work;
}

std::vector<PromptSegment> MakeRequests(const Work& work, int streams, int vocab_size) {
  std::vector<PromptSegment> roots;
  RequestMaker(work, streams, vocab_size).AddLevel(0, roots);
  return roots;
}

}  // namespace banyan::app
