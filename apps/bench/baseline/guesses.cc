// Draft tokens by lookup, by a draft model and by constraints.
#include "baseline/guesses.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "load/model_parts.h"

namespace banyan {
namespace {

// The only token of a mask; nothing where there are several or none.
std::optional<TokenId> OnlyToken(std::span<const std::uint32_t> mask) {
  std::optional<TokenId> found;
  for (size_t word = 0; word < mask.size(); ++word) {
    if (mask[word] == 0) continue;
    if (found || (mask[word] & (mask[word] - 1)) != 0) return {};
    found = static_cast<TokenId>(word * 32 + static_cast<size_t>(__builtin_ctz(mask[word])));
  }
  return found;
}

}  // namespace

std::vector<TokenId> LookUpDraft(std::span<const TokenId> text, int longest, int most) {
  const size_t size = text.size();
  size_t best = 0, best_end = 0;  // tokens of the match, and where it ends
  for (size_t end = size - (size > 0 ? 1 : 0); end > 0 && best < static_cast<size_t>(longest);
       --end) {
    size_t match = 0;
    while (match < static_cast<size_t>(longest) && match < end &&
           text[end - 1 - match] == text[size - 1 - match]) {
      ++match;
    }
    if (match > best) {  // of equal ones the latest, which is met first
      best = match;
      best_end = end;
    }
  }
  if (best == 0 || most <= 0) return {};
  const size_t count = std::min(size - best_end, static_cast<size_t>(most));
  const std::span<const TokenId> after = text.subspan(best_end, count);
  return {after.begin(), after.end()};
}

void GuessMaker::Guess(std::span<DraftedStream* const> group) {
  for (DraftedStream* stream : group) stream->guesses.clear();
  if (drafter_ != nullptr) return GuessByModel(group);
  for (DraftedStream* stream : group) GuessByLookup(*stream);
}

// A further guess, if the answer may have it there. `state`: where the answer stands after the
// guesses so far.
bool GuessMaker::AddGuess(DraftedStream& stream, std::optional<ConstraintState>& state,
                          TokenId token) {
  if (stream.IsStop(token)) return false;
  if (state) {
    ConstraintState next = *state;
    if (!next.Advance(token) || next.MustEnd()) return false;
    state = next;
  }
  stream.guesses.push_back(token);
  ++report_.guessed;
  return true;
}

bool GuessMaker::HasRoom(const DraftedStream& stream) const {
  const size_t written = stream.answer.tokens.size() + stream.guesses.size();
  return static_cast<int>(stream.guesses.size()) < options_.tokens &&
         static_cast<std::int32_t>(written) + 1 < stream.most;
}

// Where the constraint leaves no choice. False: it leaves one, or the answer may end there.
bool GuessMaker::AddKnown(DraftedStream& stream, std::optional<ConstraintState>& state) {
  if (!state) return false;
  const std::optional<TokenId> only = OnlyToken(*state->AllowedMask());
  if (!only || !AddGuess(stream, state, *only)) return false;
  ++report_.known;
  return true;
}

void GuessMaker::GuessByLookup(DraftedStream& stream) {
  std::optional<ConstraintState> state = stream.constraint;
  std::vector<TokenId>& text = stream.text;
  const size_t size = text.size();
  while (HasRoom(stream)) {
    if (!AddKnown(stream, state)) {
      const std::vector<TokenId> next =
          options_.lookup > 0 ? LookUpDraft(text, options_.lookup, 1) : std::vector<TokenId>();
      if (next.empty() || !AddGuess(stream, state, next.front())) break;
    }
    text.push_back(stream.guesses.back());
  }
  text.resize(size);
}

// One token each at a time, for all that still want one.
void GuessMaker::GuessByModel(std::span<DraftedStream* const> group) {
  std::vector<std::optional<ConstraintState>> states;
  std::vector<size_t> guessing;
  for (size_t i = 0; i < group.size(); ++i) {
    states.push_back(group[i]->constraint);
    guessing.push_back(i);
  }
  while (!guessing.empty()) {
    std::vector<std::vector<TokenId>> fed;
    std::vector<SegmentFeed> feeds;
    std::vector<SamplingRow> rows;
    std::vector<size_t> asked;
    std::vector<std::shared_ptr<const std::vector<std::uint32_t>>> masks;
    fed.reserve(guessing.size());
    for (const size_t i : guessing) {
      DraftedStream& stream = *group[i];
      while (HasRoom(stream) && AddKnown(stream, states[i])) {
      }
      if (!HasRoom(stream)) continue;
      std::vector<TokenId>& tokens = fed.emplace_back(stream.own);
      tokens.insert(tokens.end(), stream.guesses.begin(), stream.guesses.end());
      tokens.erase(tokens.begin(), tokens.begin() + drafter_->filled(stream.tail));
      feeds.push_back({stream.tail, tokens, 1});
      rows.emplace_back().row = static_cast<std::int32_t>(asked.size());
      if (states[i]) {
        masks.push_back(states[i]->AllowedMask());
        rows.back().allowed = *masks.back();
      }
      asked.push_back(i);
    }
    if (asked.empty()) return;
    std::vector<TokenChoice> choices(asked.size());
    options_.model->parts().kernels->SelectTokens(drafter_->Step(feeds), rows, choices);
    guessing.clear();
    for (size_t n = 0; n < asked.size(); ++n) {
      DraftedStream& stream = *group[asked[n]];
      if (choices[n].token == kNoToken) continue;
      if (AddGuess(stream, states[asked[n]], choices[n].token)) guessing.push_back(asked[n]);
    }
  }
}

}  // namespace banyan
