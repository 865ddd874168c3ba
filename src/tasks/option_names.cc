#include "banyan/option_names.h"

#include <cstdlib>

namespace banyan {

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
      {"mean", ChoiceScore::kMean}, {"sum", ChoiceScore::kSum}, {"prior", ChoiceScore::kPrior}};
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

void ParseBeta(const std::string& text, const std::string& option, PanelOptions& panel) {
  if (text == "expert" || text == "shared") {
    panel.beta_rule = text == "shared" ? BetaRule::kShared : BetaRule::kExpert;
    return;
  }
  char* end = nullptr;
  panel.beta_rule = BetaRule::kFixed;
  panel.beta = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(panel.beta >= 0.0 && panel.beta < 1e6)) {
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
