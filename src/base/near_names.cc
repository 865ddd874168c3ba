#include "program/near_names.h"

#include <algorithm>
#include <cstddef>

namespace banyan {
namespace {

constexpr size_t kLongestWord = 64;

// Letters changed, added, left out, or swapped with their neighbour.
size_t Changes(std::string_view a, std::string_view b) {
  // cost[i][j]: from the first i letters of a to the first j of b.
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({changed, cost[i - 1][j] + 1, cost[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

bool OneBeginsTheOther(std::string_view a, std::string_view b) {
  constexpr size_t kEnough = 3;
  const size_t length = std::min(a.size(), b.size());
  return length >= kEnough && a.substr(0, length) == b.substr(0, length);
}

}  // namespace

std::string NearestName(std::string_view word, const std::vector<std::string>& known) {
  constexpr size_t kMostChanges = 3;
  if (word.size() > kLongestWord) return "";
  const size_t most = std::clamp<size_t>(word.size() / 3, 1, kMostChanges);
  std::string nearest;
  size_t fewest = 0;
  for (const std::string& candidate : known) {
    // An abbreviation is as near as a slip; of two, the shorter.
    const bool begins = OneBeginsTheOther(word, candidate);
    const size_t changes = begins ? 1 : Changes(word, candidate);
    if (changes > most) continue;
    const bool shorter = begins && changes == fewest && candidate.size() < nearest.size();
    if (nearest.empty() || changes < fewest || shorter) {
      nearest = candidate;
      fewest = changes;
    }
  }
  return nearest;
}

std::string MistypedName(std::string_view word, const std::vector<std::string>& known) {
  constexpr size_t kShortest = 5, kLong = 9;
  if (word.size() < kShortest || word.size() > kLongestWord) return "";
  const size_t most = word.size() < kLong ? 1 : 2;
  std::string nearest;
  size_t fewest = most + 1;
  for (const std::string& candidate : known) {
    const size_t changes = Changes(word, candidate);
    if (changes == 0) return "";
    if (candidate.size() < kShortest || changes >= fewest) continue;
    nearest = candidate;
    fewest = changes;
  }
  return nearest;
}

}  // namespace banyan
