// Text, confidence and null bias of one answer; then the ranking of the parts' answers.
#include "tasks/ask/ask_answers.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "base/characters.h"
#include "tasks/job/task.h"
#include "tasks/output/row_format.h"
#include "tasks/prompt/document_fitter.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The log-probability that is left for all other first tokens: none of them has more.
double MostOfOthers(double logprob) { return std::log1p(-std::exp(std::min(logprob, 0.0))); }

constexpr size_t kMostPassages = 4;

// Where the character with this number begins.
size_t ByteOfCharacter(std::string_view text, std::int64_t character) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (!BeginsCharacter(text[at])) continue;
    if (character-- == 0) return at;
  }
  return text.size();
}

}  // namespace

AskedPart& AskedQuestion::PartAt(size_t number) {
  if (number == kPriorPart) return prior;
  return number == kReducedPart ? reduced : parts[number];
}

bool AnswerReader::IsNull(const std::string& answer) const {
  return SaysNothing(answer, model_.card->null_text);
}

std::string AnswerReader::Decode(std::span<const TokenId> tokens, bool skip_special) const {
  std::vector<TokenId> known;
  const int vocabulary = settings_.text->vocab_size();
  std::ranges::copy_if(tokens, std::back_inserter(known),
                       [&](TokenId token) { return token >= 0 && token < vocabulary; });
  return settings_.text->Decode(known, skip_special);
}

AskAnswerText AnswerReader::Read(const Answer& answer, const AskedPart& part) const {
  std::string text = answer.finish == FinishReason::kStopString
                         ? answer.text
                         : Decode(answer.tokens, /*skip_special=*/true);
  // A copy that was cut short ends with its last whole word.
  if (part.copied && answer.finish == FinishReason::kLength) {
    while (!text.empty() && !part.copied->Matches(text)) text.pop_back();
  }
  if (settings_.options.thinking) {
    if (const auto split = settings_.text->SplitChannels(answer.tokens)) {
      return {std::string(Trimmed(split->answer)), std::string(Trimmed(split->thinking))};
    }
  }
  AskAnswerText read{std::string(Trimmed(text)), ""};
  constexpr std::string_view kBegin = "<think>", kEnd = "</think>";
  const size_t thought = read.answer.rfind(kEnd);
  if (!settings_.options.thinking || thought == std::string::npos) return read;
  read.thinking = Trimmed(read.answer.substr(0, thought));
  if (read.thinking.starts_with(kBegin)) {
    read.thinking = Trimmed(read.thinking.substr(kBegin.size()));
  }
  read.answer = Trimmed(read.answer.substr(thought + kEnd.size()));
  return read;
}

// Calibrations are of answers as the model gives them, not of thoughts and forced shapes.
std::optional<double> AnswerReader::Confidence(const Answer& answer, bool is_null) const {
  if (settings_.options.thinking || settings_.constraint) return std::nullopt;
  const Calibration* calibration = model_.card->CalibrationOf("ask", is_null ? "null" : "answer");
  if (calibration == nullptr) return std::nullopt;
  return calibration->Probability(answer.logprobs);
}

NullBias::NullBias(const AskOptions& options, const AskModel& model, const AnswerReader& reader)
    : reader_(reader) {
  const bool counts = model.copies && options.samples == 1 && options.sampling.temperature <= 0.0f;
  if (counts) bias_ = model.card->null_bias.value_or(0.0);
}

bool NullBias::MayTurn(double first_logprob, bool is_null) const {
  const double others = MostOfOthers(first_logprob);
  if (is_null) return bias_ < 0.0 && first_logprob + bias_ < others;
  return bias_ > 0.0 && first_logprob < others + bias_;
}

bool NullBias::IsUndecided(const AskedPart& part) const {
  if (!part.copied || part.answers.front().logprobs.empty()) return false;
  return MayTurn(part.answers.front().logprobs.front(), reader_.FirstIsNull(part));
}

void NullBias::Decide(AskedPart& part) const {
  if (part.other.logprobs.empty() || part.answers.front().logprobs.empty()) return;
  const double said = part.answers.front().logprobs.front(), other = part.other.logprobs.front();
  const bool is_null = reader_.FirstIsNull(part);
  const bool turns = is_null ? other > said + bias_ : other + bias_ > said;
  if (!turns) return;
  if (!is_null) part.other.finish = FinishReason::kStopToken;
  part.answers.front() = std::move(part.other);
}

std::optional<TextSpan> PartRanking::PlaceOf(const AskedPart& part,
                                             const std::string& answer) const {
  for (const std::string_view piece : part.pieces) {
    const std::optional<TextSpan> found = FindSpan(piece, answer);
    if (!found) continue;
    const std::int64_t offset = SpanOf(piece).start;
    return TextSpan{offset + found->start, offset + found->end};
  }
  return FindSpan(context_, answer);
}

std::vector<PartCandidate> PartRanking::Candidates(const AskedQuestion& asked) const {
  std::vector<PartCandidate> candidates;
  for (size_t i = 0; i < asked.parts.size(); ++i) {
    const AskedPart& part = asked.parts[i];
    const Answer& first = part.answers.front();
    std::string answer = reader_.FirstText(part);
    if (reader_.IsNull(answer)) continue;
    PartCandidate candidate;
    candidate.part = i;
    candidate.answer = std::move(answer);
    candidate.score = MeanOf(first.logprobs);
    candidate.begin = static_cast<size_t>(part.context.data() - context_.data());
    candidate.place = PlaceOf(part, candidate.answer);
    candidate.confidence = reader_.Confidence(first, /*is_null=*/false);
    candidates.push_back(std::move(candidate));
  }
  // answer → place → the probability that it is wrong there; parts overlap.
  std::map<std::string, std::map<std::int64_t, double>> wrong;
  for (const PartCandidate& candidate : candidates) {
    if (!candidate.confidence) continue;
    const std::int64_t place = candidate.place ? candidate.place->start : -1;
    auto& places = wrong[ComparableAnswer(candidate.answer)];
    const auto [it, is_new] = places.try_emplace(place, 1.0);
    it->second = std::min(it->second, 1.0 - *candidate.confidence);
  }
  for (PartCandidate& candidate : candidates) {
    if (!candidate.confidence) continue;
    double all_wrong = 1.0;
    for (const auto& [place, one] : wrong[ComparableAnswer(candidate.answer)]) all_wrong *= one;
    // Of those that agree, the surest.
    candidate.score = (1.0 - all_wrong) + 1e-6 * *candidate.confidence;
  }
  std::ranges::stable_sort(
      candidates, [](const PartCandidate& a, const PartCandidate& b) { return a.score > b.score; });
  return candidates;
}

// Where no part answers, the one that is least sure of its null: the document says nothing only if
// no part does.
size_t PartRanking::BestPart(const AskedQuestion& asked) const {
  if (asked.parts.size() < 2) return 0;
  const std::vector<PartCandidate> candidates = Candidates(asked);
  if (!candidates.empty()) return candidates.front().part;
  size_t best = 0;
  double least = 2.0;
  for (size_t i = 0; i < asked.parts.size(); ++i) {
    const auto confidence = reader_.Confidence(asked.parts[i].answers.front(), /*is_null=*/true);
    if (!confidence || *confidence >= least) continue;
    least = *confidence;
    best = i;
  }
  return best;
}

// With a calibration the surer of passages and best part counts, also a null; without one the
// passages do, unless their answer is null.
bool PartRanking::ReducedCounts(const AskedQuestion& asked, const AskedPart& best) const {
  if (asked.reduced.answers.empty()) return false;
  const bool is_null = reader_.FirstIsNull(asked.reduced);
  const std::optional<double> sure = reader_.Confidence(asked.reduced.answers.front(), is_null);
  const std::optional<double> other = reader_.Confidence(best.answers.front(), /*is_null=*/false);
  return sure && other ? *sure >= *other : !is_null;
}

const AskedPart& PartRanking::Best(const AskedQuestion& asked) const {
  const AskedPart& best = asked.parts[BestPart(asked)];
  return ReducedCounts(asked, best) ? asked.reduced : best;
}

// Characters of the record's context.
TextSpan PartRanking::SpanOf(std::string_view piece) const {
  const auto before = static_cast<size_t>(piece.data() - context_.data());
  const std::int64_t start = CountCharacters(context_.substr(0, before));
  return {start, start + CountCharacters(piece)};
}

void PartRanking::Write(const AskedQuestion& asked, const AskedPart& answered,
                        OrderedJson& row) const {
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
  for (const PartCandidate& candidate : Candidates(asked)) {
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

std::vector<std::string_view> PartRanking::Passages(const std::vector<PartCandidate>& candidates,
                                                    size_t bytes) const {
  std::vector<std::pair<size_t, size_t>> ranges;  // begin, end
  for (const PartCandidate& candidate : candidates) {
    if (ranges.size() == kMostPassages) break;
    size_t begin = candidate.begin, end = begin + 1;
    if (candidate.place) {
      begin = ByteOfCharacter(context_, candidate.place->start);
      end = ByteOfCharacter(context_, candidate.place->end);
    }
    const size_t spare = bytes > end - begin ? (bytes - (end - begin)) / 2 : 0;
    const size_t from = begin > spare ? BeginPlace(context_, begin - spare, begin) : 0;
    const size_t to =
        std::max(end, CutPlace(context_, std::min(context_.size(), end + spare), spare));
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
    passages.push_back(context_.substr(from, to - from));
  }
  return passages;
}

}  // namespace banyan
