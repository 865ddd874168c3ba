// A long context that was asked in parts: which part's answer counts, where it stands in the whole,
// and what the model reads again when it is to see the best passages together.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/characters.h"
#include "base/error.h"
#include "tasks/ask/ask_work.h"
#include "tasks/job/null_answer.h"
#include "tasks/output/row_numbers.h"
#include "tasks/prompt/text_cut.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr size_t kMostPassages = 4;
constexpr size_t kPassageBytes = 1200;  // around an answer

// Where the character with this number begins.
size_t ByteOfCharacter(std::string_view text, std::int64_t character) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (!BeginsCharacter(text[at])) continue;
    if (character-- == 0) return at;
  }
  return text.size();
}

}  // namespace

// In the whole context, found where the part was read.
std::optional<TextSpan> AskWork::PlaceOf(const Part& part, const std::string& answer) const {
  for (const std::string_view piece : part.pieces) {
    const std::optional<TextSpan> found = FindSpan(piece, answer);
    if (!found) continue;
    const std::int64_t offset = SpanOf(piece).start;
    return TextSpan{offset + found->start, offset + found->end};
  }
  return FindSpan(record_.context, answer);
}

// What the parts answer, the best first. Answers that agree at different places support each other:
// with a calibration an answer counts with the probability that not all of them are wrong. Without
// one, the highest mean log-probability per token is the best.
std::vector<AskWork::Candidate> AskWork::Candidates(const Asked& asked) const {
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < asked.parts.size(); ++i) {
    const Part& part = asked.parts[i];
    const Answer& first = part.answers.front();
    std::string answer = WhatWasSaid(first, part).answer;
    if (SaysNothingHere(answer)) continue;
    Candidate candidate;
    candidate.part = i;
    candidate.answer = std::move(answer);
    candidate.score = MeanOf(first.logprobs);
    candidate.begin = static_cast<size_t>(part.context.data() - record_.context.data());
    candidate.place = PlaceOf(part, candidate.answer);
    candidate.confidence = ConfidenceOf(first, /*nothing=*/false);
    candidates.push_back(std::move(candidate));
  }
  // answer → place → the probability that it is wrong there; parts overlap.
  std::map<std::string, std::map<std::int64_t, double>> wrong;
  for (const Candidate& candidate : candidates) {
    if (!candidate.confidence) continue;
    const std::int64_t place = candidate.place ? candidate.place->start : -1;
    auto& places = wrong[ComparableAnswer(candidate.answer)];
    const auto [it, is_new] = places.try_emplace(place, 1.0);
    it->second = std::min(it->second, 1.0 - *candidate.confidence);
  }
  for (Candidate& candidate : candidates) {
    if (!candidate.confidence) continue;
    double all_wrong = 1.0;
    for (const auto& [place, one] : wrong[ComparableAnswer(candidate.answer)]) all_wrong *= one;
    // Of those that agree, the surest.
    candidate.score = (1.0 - all_wrong) + 1e-6 * *candidate.confidence;
  }
  std::ranges::stable_sort(
      candidates, [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  return candidates;
}

// The part whose answer counts. Where none answers, the one that is least sure of its null: the
// document says nothing only if no part does.
size_t AskWork::BestPart(const Asked& asked) const {
  if (asked.parts.size() < 2) return 0;
  const std::vector<Candidate> candidates = Candidates(asked);
  if (!candidates.empty()) return candidates.front().part;
  size_t best = 0;
  double least = 2.0;
  for (size_t i = 0; i < asked.parts.size(); ++i) {
    const auto confidence = ConfidenceOf(asked.parts[i].answers.front(), /*nothing=*/true);
    if (!confidence || *confidence >= least) continue;
    least = *confidence;
    best = i;
  }
  return best;
}

// What was read together counts against the best part's answer: with a calibration the surer of the
// two does, also a null; without one what was read together does, unless it is null.
bool AskWork::ReducedCounts(const Asked& asked, const Part& best) const {
  if (asked.reduced.answers.empty()) return false;
  const Answer& reduced = asked.reduced.answers.front();
  const bool nothing = SaysNothingHere(WhatWasSaid(reduced, asked.reduced).answer);
  const std::optional<double> sure = ConfidenceOf(reduced, nothing);
  const std::optional<double> other = ConfidenceOf(best.answers.front(), /*nothing=*/false);
  return sure && other ? *sure >= *other : !nothing;
}

// Characters of the record's context.
TextSpan AskWork::SpanOf(std::string_view piece) const {
  const auto before = static_cast<size_t>(piece.data() - record_.context.data());
  const std::int64_t start = CountCharacters(std::string_view(record_.context).substr(0, before));
  return {start, start + CountCharacters(piece)};
}

// Which part answered, or what was read together; and what the parts answered.
void AskWork::WriteParts(const Asked& asked, const Part& answered, OrderedJson& row) const {
  const bool reduced = &answered == &asked.reduced;
  if (reduced) row["reduced"] = true;
  if (!reduced) row["part"] = static_cast<size_t>(&answered - asked.parts.data());
  OrderedJson read = OrderedJson::array();
  for (const std::string_view piece : answered.pieces) {
    const TextSpan span = SpanOf(piece);
    read.push_back(OrderedJson{{"start", span.start}, {"end", span.end}});
  }
  row["read"] = std::move(read);
  OrderedJson list = OrderedJson::array();
  for (const Candidate& candidate : Candidates(asked)) {
    if (list.size() == kMostPassages) break;
    OrderedJson written = {{"part", candidate.part}, {"answer", candidate.answer}};
    if (candidate.place) {
      written["start"] = candidate.place->start;
      written["end"] = candidate.place->end;
    }
    if (candidate.confidence) written["confidence"] = RowProbability(*candidate.confidence);
    list.push_back(std::move(written));
  }
  row["parts"] = asked.parts.size();
  row["candidates"] = std::move(list);
}

// Passages around the best answers, in the order of the context.
std::vector<std::string_view> AskWork::Passages(const std::vector<Candidate>& candidates,
                                                size_t bytes) const {
  const std::string_view context = record_.context;
  std::vector<std::pair<size_t, size_t>> ranges;  // begin, end
  for (const Candidate& candidate : candidates) {
    if (ranges.size() == kMostPassages) break;
    size_t begin = 0, end = 0;
    if (candidate.place) {
      begin = ByteOfCharacter(context, candidate.place->start);
      end = ByteOfCharacter(context, candidate.place->end);
    } else {
      begin = candidate.begin;
      end = begin + 1;
    }
    const size_t spare = bytes > end - begin ? (bytes - (end - begin)) / 2 : 0;
    const size_t from = begin > spare ? BeginPlace(context, begin - spare, begin) : 0;
    const size_t to =
        std::max(end, CutPlace(context, std::min(context.size(), end + spare), spare));
    ranges.emplace_back(from, to);
  }
  std::ranges::sort(ranges);
  std::vector<std::string_view> passages;
  for (size_t i = 0; i < ranges.size();) {
    const size_t from = ranges[i].first;
    size_t to = ranges[i].second;
    for (++i; i < ranges.size() && ranges[i].first <= to; ++i) {
      to = std::max(to, ranges[i].second);  // passages that meet are one
    }
    passages.push_back(context.substr(from, to - from));
  }
  return passages;
}

void AskWork::AskReduced(size_t question) {
  Asked& asked = asked_[question];
  const std::vector<Candidate> candidates = Candidates(asked);
  std::string& text = texts_.emplace_back();  // which the prompt's parts and copies view
  for (size_t bytes = kPassageBytes; bytes >= 64; bytes = bytes * 2 / 3) {
    const std::vector<std::string_view> passages = Passages(candidates, bytes);
    text.clear();
    for (const std::string_view passage : passages) {
      if (!text.empty()) text += "\n\n";
      text += passage;
    }
    const Prompt prompt = Encode(question, text);
    if (Needs(prompt) > settings_.model->context_length()) continue;
    AddTo(question, kReducedPart, prompt);
    asked.reduced.pieces = passages;
    return;
  }
}

}  // namespace banyan
