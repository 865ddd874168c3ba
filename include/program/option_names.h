// What options are called whose value is one of several names, and values that are written in a way
// of their own: the command line and Python read both alike.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "banyan/ask.h"
#include "banyan/error.h"
#include "banyan/extract.h"
#include "banyan/job.h"
#include "banyan/panel.h"
#include "banyan/rag.h"
#include "banyan/retrieval.h"

namespace banyan {

template <typename Value>
using OptionNames = std::vector<std::pair<const char*, Value>>;

// The value of a name. `option` is what the message calls the option. Throws kUsage with the names
// that there are.
template <typename Value>
Value NamedValue(const std::string& name, const std::string& option,
                 const OptionNames<Value>& values) {
  std::string names;
  for (const auto& [known, value] : values) {
    if (name == known) return value;
    names += (names.empty() ? "" : ", ") + std::string(known);
  }
  throw Error(ErrorKind::kUsage, option + ": expected one of " + names + "; found '" + name + "'");
}

const OptionNames<ChatUse>& ChatNames();
const OptionNames<ChoiceMode>& ChoiceModeNames();
const OptionNames<ChoiceScore>& ChoiceScoreNames();
const OptionNames<ValueMode>& ValueModeNames();
const OptionNames<FuseMode>& FuseModeNames();
const OptionNames<ExpertsAre>& ExpertsNames();
const OptionNames<Signal>& CandidateNames();
const OptionNames<RagMethod>& RagMethodNames();
const OptionNames<RelevanceFrom>& RelevanceNames();
const OptionNames<FusionRule>& FusionRuleNames();
const OptionNames<PanelScores>& PanelScoresNames();
const OptionNames<Strategy>& StrategyNames();
// Of ask and extract; those of rag do not split.
const OptionNames<TooLong>& TooLongNames();
const OptionNames<TooLong>& TooLongNamesWithoutSplit();

// "expert", "shared", or a number from 0. Throws kUsage.
void ParseBeta(const std::string& text, const std::string& option, PanelOptions& panel);
// "," ";" "|" or "tab". Throws kUsage.
char ParseDelimiter(const std::string& text, const std::string& option);
// Throws kUsage unless 1 <= shard <= shards; `text` is how they were given.
void CheckShard(const JobOptions& job, const std::string& text, const std::string& option);

}  // namespace banyan
