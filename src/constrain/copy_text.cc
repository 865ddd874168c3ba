#include "constrain/copy_text.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "text/utf8.h"

namespace banyan {
namespace {

constexpr int kBreak = -1;  // stands between texts: nothing goes over it

bool IsSpace(int byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }
bool IsDigit(int byte) { return byte >= '0' && byte <= '9'; }
bool IsWord(int byte) {
  const int letter = byte | 0x20;
  return IsDigit(byte) || (letter >= 'a' && letter <= 'z' && byte < 0x80) || byte >= 0x80;
}
bool JoinsDigits(int byte) { return byte == '.' || byte == ',' || byte == ':' || byte == '/'; }

// What may be copied, with where spans begin and end.
struct Source {
  std::vector<int> bytes;  // kBreak at the end of every text
  std::vector<bool> ends;  // [p]: a span may end before byte p
  std::vector<std::uint32_t> starts;

  int at(size_t p) const { return p < bytes.size() ? bytes[p] : kBreak; }

  // Between bytes p - 1 and p, inside a text.
  bool IsBoundary(size_t p) const {
    const int before = p == 0 ? kBreak : at(p - 1), after = at(p);
    if (before == kBreak || after == kBreak) return true;
    if (IsDigit(before) && JoinsDigits(after) && IsDigit(at(p + 1))) return false;
    if (JoinsDigits(before) && IsDigit(after) && p >= 2 && IsDigit(at(p - 2))) return false;
    return !(IsWord(before) && IsWord(after));
  }

  void AddBreak() {
    while (!bytes.empty() && bytes.back() == ' ') bytes.pop_back();
    if (!bytes.empty() && bytes.back() != kBreak) bytes.push_back(kBreak);
  }

  void AddText(std::string_view text, const std::bitset<256>& without) {
    for (size_t at = 0; at < text.size();) {
      const Utf8Character character = ReadUtf8(text, at);
      const std::string_view part = text.substr(at, std::max<size_t>(character.length, 1));
      at += part.size();
      const bool can_be_said = character.valid && std::ranges::none_of(part, [&](char byte) {
                                 return without[static_cast<std::uint8_t>(byte)];
                               });
      if (IsSpace(static_cast<std::uint8_t>(part[0]))) {
        const bool inside = !bytes.empty() && bytes.back() != kBreak && bytes.back() != ' ';
        if (inside && !without[' ']) bytes.push_back(' ');
        if (inside && without[' ']) AddBreak();
      } else if (can_be_said) {
        for (const char byte : part) bytes.push_back(static_cast<std::uint8_t>(byte));
      } else {
        AddBreak();
      }
    }
    AddBreak();
    ends.assign(bytes.size() + 1, false);
    for (size_t p = 0; p < bytes.size(); ++p) {
      if (!IsBoundary(p)) continue;
      ends[p] = p > 0 && at(p - 1) != kBreak && at(p - 1) != ' ';
      if (at(p) != kBreak && at(p) != ' ') starts.push_back(static_cast<std::uint32_t>(p));
    }
  }

  // As a whole, or not at all.
  void AddWhole(std::string_view text, const std::bitset<256>& without) {
    if (text.empty() || std::ranges::any_of(text, [&](char byte) {
          return without[static_cast<std::uint8_t>(byte)];
        })) {
      return;
    }
    starts.push_back(static_cast<std::uint32_t>(bytes.size()));
    for (const char byte : text) bytes.push_back(static_cast<std::uint8_t>(byte));
    ends.resize(bytes.size() + 1, false);
    ends[bytes.size()] = true;
    bytes.push_back(kBreak);
  }
};

}  // namespace

// A state is the set of places in the source that the text so far may have come to, sorted.
class CopyBuilder {
 public:
  CopyBuilder(const Source& source, const DfaLimits& limits, Dfa& dfa)
      : source_(source), limits_(limits), dfa_(dfa) {}

  void Build() {
    std::bitset<257> begins;
    begins.set(0);
    for (const int byte : source_.bytes) {
      if (byte == kBreak) continue;
      begins.set(static_cast<size_t>(byte));
      begins.set(static_cast<size_t>(byte) + 1);
    }
    for (size_t byte = 0; byte < 256; ++byte) {
      if (begins.test(byte)) ++dfa_.kinds_;
      dfa_.kind_of_[byte] = static_cast<std::uint8_t>(dfa_.kinds_ - 1);
    }
    AddState({});  // kDead
    if (source_.starts.empty()) return;
    dfa_.start_ = AddState(source_.starts);
    dfa_.accepting_[dfa_.start_] = 0;  // nothing is no span, though one may begin where one ends
    std::vector<std::vector<std::uint32_t>> next(dfa_.kinds_);
    for (size_t state = 1; state < sets_.size(); ++state) {
      for (auto& places : next) places.clear();
      const std::vector<std::uint32_t> places = sets_[state];
      for (const std::uint32_t place : places) {
        const int byte = source_.bytes[place];
        if (byte != kBreak) next[dfa_.kind_of_[static_cast<size_t>(byte)]].push_back(place + 1);
      }
      for (size_t kind = 0; kind < next.size(); ++kind) {
        if (next[kind].empty()) continue;
        dfa_.table_[state * dfa_.kinds_ + kind] = StateOf(next[kind]);
        dfa_.goes_on_[state] = 1;
      }
    }
  }

 private:
  Dfa::State AddState(const std::vector<std::uint32_t>& places) {
    const size_t states = sets_.size() + 1;
    work_ += places.size() + dfa_.kinds_;
    if (states > limits_.states || states * dfa_.kinds_ > limits_.entries || work_ > limits_.work) {
      Throw(ErrorKind::kLimit,
            "the text of {} bytes is too long to copy answers from, or repeats itself too much",
            source_.bytes.size());
    }
    dfa_.table_.resize(states * dfa_.kinds_, Dfa::kDead);
    dfa_.accepting_.push_back(
        std::ranges::any_of(places, [this](std::uint32_t p) { return source_.ends[p]; }) ? 1 : 0);
    dfa_.goes_on_.push_back(0);
    sets_.push_back(places);
    return static_cast<Dfa::State>(states - 1);
  }

  Dfa::State StateOf(const std::vector<std::uint32_t>& places) {
    std::uint64_t hash = places.size();
    for (const std::uint32_t place : places) {
      hash = (hash ^ place) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    auto [begin, end] = known_.equal_range(hash);
    for (; begin != end; ++begin) {
      if (sets_[begin->second] == places) return begin->second;
    }
    const Dfa::State state = AddState(places);
    known_.emplace(hash, state);
    return state;
  }

  const Source& source_;
  const DfaLimits& limits_;
  Dfa& dfa_;
  size_t work_ = 0;
  std::vector<std::vector<std::uint32_t>> sets_;
  std::unordered_multimap<std::uint64_t, Dfa::State> known_;  // by hash of the set
};

Dfa CopyAutomaton(std::string_view text, std::span<const std::string> others,
                  const std::bitset<256>& without, const DfaLimits& limits) {
  Source source;
  source.AddText(text, without);
  for (const std::string& other : others) source.AddWhole(other, without);
  Dfa dfa;
  CopyBuilder(source, limits, dfa).Build();
  return dfa;
}

}  // namespace banyan
