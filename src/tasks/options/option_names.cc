#include "program/option_names.h"

#include <cstdlib>
#include <initializer_list>

namespace banyan {
namespace {

// Values under the names that the library itself has for them.
template <typename Value>
OptionNames<Value> NamesOf(std::initializer_list<Value> values, const char* (*name)(Value)) {
  OptionNames<Value> names;
  for (const Value value : values) names.emplace_back(name(value), value);
  return names;
}

}  // namespace

const OptionNames<ChatUse>& ChatNames() {
  static const OptionNames<ChatUse> names = {
      {"auto", ChatUse::kAuto}, {"on", ChatUse::kOn}, {"off", ChatUse::kOff}};
  return names;
}

const OptionNames<ChoiceMode>& ChoiceModeNames() {
  static const OptionNames<ChoiceMode> names = {{"score", ChoiceMode::kScore},
                                                {"letter", ChoiceMode::kLetter}};
  return names;
}

const OptionNames<ChoiceScore>& ChoiceScoreNames() {
  static const OptionNames<ChoiceScore> names = {
      {"sum", ChoiceScore::kSum}, {"mean", ChoiceScore::kMean}, {"prior", ChoiceScore::kPrior}};
  return names;
}

const OptionNames<FuseMode>& FuseModeNames() {
  static const OptionNames<FuseMode> names = {{"values", FuseMode::kValues},
                                              {"tokens", FuseMode::kTokens}};
  return names;
}

const OptionNames<ValueMode>& ValueModeNames() {
  static const OptionNames<ValueMode> names = {{"skeleton", ValueMode::kSkeleton},
                                               {"isolated", ValueMode::kIsolated},
                                               {"sequential", ValueMode::kSequential}};
  return names;
}

const OptionNames<ExpertsAre>& ExpertsNames() {
  static const OptionNames<ExpertsAre> names = {{"documents", ExpertsAre::kDocuments},
                                                {"examples", ExpertsAre::kExamples}};
  return names;
}

const OptionNames<Signal>& CandidateNames() {
  static const OptionNames<Signal> names = {
      {"bm25", Signal::kBm25}, {"dense", Signal::kDense}, {"sparse", Signal::kSparse}};
  return names;
}

const OptionNames<TooLong>& TooLongNames() {
  static const OptionNames<TooLong> names = {
      {"fail", TooLong::kFail}, {"truncate", TooLong::kTruncate}, {"split", TooLong::kSplit}};
  return names;
}

const OptionNames<TooLong>& TooLongNamesWithoutSplit() {
  static const OptionNames<TooLong> names = {{"fail", TooLong::kFail},
                                             {"truncate", TooLong::kTruncate}};
  return names;
}

const OptionNames<RagMethod>& RagMethodNames() {
  static const OptionNames<RagMethod> names =
      NamesOf({RagMethod::kExperts, RagMethod::kConcat, RagMethod::kTop1, RagMethod::kMapReduce,
               RagMethod::kKvConcat},
              RagMethodName);
  return names;
}

const OptionNames<RelevanceFrom>& RelevanceNames() {
  static const OptionNames<RelevanceFrom> names =
      NamesOf({RelevanceFrom::kAuto, RelevanceFrom::kGiven, RelevanceFrom::kBm25,
               RelevanceFrom::kDense, RelevanceFrom::kSparse, RelevanceFrom::kMultiVector,
               RelevanceFrom::kRerank, RelevanceFrom::kEqual},
              RelevanceFromName);
  return names;
}

const OptionNames<FusionRule>& FusionRuleNames() {
  static const OptionNames<FusionRule> names =
      NamesOf({FusionRule::kMax, FusionRule::kMixture, FusionRule::kProduct}, FusionRuleName);
  return names;
}

const OptionNames<PanelScores>& PanelScoresNames() {
  static const OptionNames<PanelScores> names =
      NamesOf({PanelScores::kNormalised, PanelScores::kRaw}, PanelScoresName);
  return names;
}

const OptionNames<Strategy>& StrategyNames() {
  static const OptionNames<Strategy> names =
      NamesOf({Strategy::kAuto, Strategy::kTree, Strategy::kStacked, Strategy::kPaged,
               Strategy::kFlat, Strategy::kSequential, Strategy::kNoAttention},
              StrategyName);
  return names;
}

void ParseBeta(const std::string& text, const std::string& option, PanelOptions& panel) {
  if (text == "expert" || text == "shared") {
    panel.beta_rule = text == "shared" ? BetaRule::kShared : BetaRule::kExpert;
    return;
  }
  char* end = nullptr;
  panel.beta_rule = BetaRule::kFixed;
  panel.beta = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(panel.beta >= 0.0 && panel.beta <= 1e6)) {
    throw Error(ErrorKind::kUsage,
                option + ": expected expert, shared or a number from 0, found '" + text + "'");
  }
}

char ParseDelimiter(const std::string& text, const std::string& option) {
  if (text == "tab" || text == "\\t" || text == "\t") return '\t';
  if (text == "," || text == ";" || text == "|") return text.front();
  throw Error(ErrorKind::kUsage, option + ": expected , ; | or tab; found '" + text + "'");
}

void CheckShard(const JobOptions& job, const std::string& text, const std::string& option) {
  if (job.shard >= 1 && job.shard <= job.shards) return;
  throw Error(ErrorKind::kUsage,
              option + ": expected i/n with 1 <= i <= n, such as 2/8; found '" + text + "'");
}

}  // namespace banyan
