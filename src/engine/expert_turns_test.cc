// Experts that take turns: what they write is what the definition says, computed anew for every
// token from whole prompts; the same in any company, order and memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "decode/answer_words.h"
#include "engine/company_fixture.h"
#include "engine/request/expert_turns.h"
#include "kernels/fusion_fixture.h"

namespace banyan {
namespace {

using testing_support::AnswersAlone;
using testing_support::AnswersByTag;
using testing_support::Ask;
using testing_support::ExpectSameAnswers;
using testing_support::LogitsAfter;
using testing_support::PageBytes;
using testing_support::PanelOver;
using testing_support::PathsOf;
using testing_support::RunAll;
using testing_support::SharedModel;
using testing_support::SharedTrie;
using testing_support::Tokens;

const std::vector<std::string> kTexts = {"On 2 April 2018, Ann Bo sold 12 cans.",
                                         "On 14 April 1818 Al B left; 3 cans",
                                         "Al Cox: 2 May 2012, 18 cab BC-402"};

std::shared_ptr<const Constraint> CopiesOf(const std::vector<std::string_view>& texts) {
  const std::vector<std::string> nothing = {"null"};
  ConstraintOptions options;
  options.joined = true;
  return Constraint::FromCopies(texts, nothing, SharedTrie(), options);
}

std::shared_ptr<const Constraint> Joined() { return CopiesOf({kTexts.begin(), kTexts.end()}); }

// A request whose experts switch at words (`copies`: whose answer is a span of their texts), in a
// text with many short words.
PromptSegment TurnsRequest(std::uint64_t tag, bool copies, int max_new) {
  const auto seed = static_cast<std::uint32_t>(tag);
  std::vector<std::vector<TokenId>> documents;
  for (const std::string& text : kTexts) {
    std::vector<TokenId>& tokens = documents.emplace_back();
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  }
  AnswerRequest answer = Ask(tag, max_new);
  answer.panel.emplace();
  answer.panel->scores = PanelScores::kNormalised;
  answer.panel->plausibility = 0.1;
  answer.panel->gamma = 0.5;
  answer.panel->switching = SwitchRule::kWord;
  answer.constraint =
      copies ? Joined() : Constraint::FromRegex("[A-Ba-b1-2,; ]{100}", SharedTrie());
  answer.sampling.temperature = tag % 2 == 0 ? 0.0f : 1.0f;
  answer.sampling.seed = tag;
  return PanelOver(Tokens(9, seed % 3), documents, Tokens(7, 50 + seed), answer, [&](size_t k) {
    ExpertRequest expert{tag, 0.3 + 0.2 * static_cast<double>(k)};
    if (copies) expert.own_text = kTexts[k];
    return expert;
  });
}

// The definition, greedy: nothing is kept from token to token.
class Definition {
 public:
  explicit Definition(const PromptSegment& request)
      : answer_(request.below.back().answers.front()), paths_(PathsOf(request)) {
    for (size_t k = 0; k + 1 < request.below.size(); ++k) {
      asked_.push_back(request.below[k].below.front().experts.front());
    }
  }

  Answer Write() {
    while (static_cast<int>(said_.tokens.size()) < answer_.max_new) {
      rows_.clear();
      for (const std::vector<TokenId>& path : paths_) AddRow(path);
      if (betas_.empty()) {
        for (size_t k = 0; k < asked_.size(); ++k) {
          betas_.push_back(
              Divergence(Logits().Row(static_cast<std::int64_t>(k) + 1), Logits().Row(0)));
        }
      }
      const auto [token, expert] = Next();
      if (token == kNoToken) break;
      said_.tokens.push_back(token);
      said_.experts.push_back(expert);
      for (std::vector<TokenId>& path : paths_) path.push_back(token);
      if (StateAfter(answer_.constraint)->MustEnd()) break;
    }
    return said_;
  }

 private:
  void AddRow(const std::vector<TokenId>& path) {
    const std::vector<float> logits = LogitsAfter(path);
    rows_.insert(rows_.end(), logits.begin(), logits.end());
  }
  LogitRows Logits() const {
    const int vocabulary = SharedModel()->parts().config.vocab_size;
    return {rows_.data(), vocabulary, vocabulary};
  }

  std::optional<ConstraintState> StateAfter(const std::shared_ptr<const Constraint>& own) const {
    ConstraintState state(own);
    for (const TokenId token : said_.tokens) {
      if (!state.Advance(token)) return std::nullopt;
    }
    return state;
  }

  static std::string BytesOf(TokenId token) {
    return token < 258 ? SharedModel()->text()->parts().tokenizer->TokenBytes(token) : "";
  }
  std::string Said() const {
    std::string text;
    for (const TokenId token : said_.tokens) text += BytesOf(token);
    return text;
  }
  std::vector<std::int32_t> All() const {
    std::vector<std::int32_t> all;
    for (size_t k = 0; k < asked_.size(); ++k) all.push_back(static_cast<std::int32_t>(k));
    return all;
  }
  // Whose texts have the last span of the answer, from the beginning of a word.
  std::vector<std::int32_t> WhoHave(std::string said) const {
    for (size_t i = 0; i + 1 < said.size(); ++i) {
      if (said[i] != ';' || said[i + 1] != ' ') continue;
      said.erase(0, i + 2);
      i = std::string::npos;
    }
    while (!said.empty() && said.front() == ' ') said.erase(0, 1);
    const auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    std::vector<std::int32_t> have;
    for (size_t k = 0; k < asked_.size(); ++k) {
      const std::string text = " " + asked_[k].own_text;
      bool has = said.empty() || said.back() == ';';
      for (size_t at = 1; at + said.size() <= text.size() && !has; ++at) {
        has = text.compare(at, said.size(), said) == 0 && !(word(text[at - 1]) && word(text[at]));
      }
      if (has) have.push_back(static_cast<std::int32_t>(k));
    }
    return have.empty() ? All() : have;
  }

  std::pair<TokenId, std::int32_t> Next() {
    const bool own = !asked_.front().own_text.empty();
    const std::vector<std::int32_t> voters = own ? WhoHave(Said()) : All();
    const std::vector<std::uint32_t> allowed = *StateAfter(answer_.constraint)->AllowedMask();
    if (own) {
      auto [token, expert] = Choose(voters, allowed);
      if (token == kNoToken) return {token, expert};
      const std::vector<std::int32_t> after = WhoHave(Said() + BytesOf(token));
      const bool has = std::ranges::find(after, expert) != after.end();
      return {token, has ? expert : after.back()};  // the later, the more relevant
    }
    WordTokens tokens(SharedModel()->text()->parts().tokenizer);
    AnswerWords words;
    std::int32_t owner = -1;
    for (size_t t = 0; t < said_.tokens.size(); ++t) {
      if (!tokens.GoesOn(words.end(), said_.tokens[t]) && tokens.Begins(said_.tokens[t])) {
        owner = said_.experts[t];
      }
      words.Push(tokens.BytesOf(said_.tokens[t]));
    }
    std::vector<std::uint32_t> others = allowed;
    bool open = false;
    for (TokenId token = 0; token < 260; ++token) {
      if (!tokens.GoesOn(words.end(), token)) continue;
      open = true;
      others[static_cast<size_t>(token) / 32] &= ~(std::uint32_t{1} << (token % 32));
    }
    if (!open) return Choose(voters, allowed);
    EXPECT_GE(owner, 0);
    const TokenId token = Choose({owner}, allowed).first;
    if (tokens.GoesOn(words.end(), token)) return {token, owner};
    return Choose(voters, others);
  }

  std::pair<TokenId, std::int32_t> Choose(const std::vector<std::int32_t>& voters,
                                          const std::vector<std::uint32_t>& allowed) {
    std::vector<ExpertRow> experts;
    for (const std::int32_t k : voters) {
      const auto at = static_cast<size_t>(k);
      experts.push_back({k + 1, betas_[at], asked_[at].relevance, 0.0});
    }
    PanelRow panel;
    panel.gamma = answer_.panel->gamma;
    panel.scores = answer_.panel->scores;
    panel.plausibility = answer_.panel->plausibility;
    panel.experts = experts;
    std::vector<float> fused(static_cast<size_t>(Logits().columns));
    FusePanel(Logits(), panel, fused);
    SamplingRow row;
    row.allowed = allowed;
    const TokenId token = SelectToken(fused, row).token;
    if (token == kNoToken) return {token, -1};
    return {token, voters[static_cast<size_t>(WinningExpert(Logits(), panel, token))]};
  }

  const AnswerRequest answer_;
  std::vector<std::vector<TokenId>> paths_;  // the prior's first
  std::vector<ExpertRequest> asked_;
  std::vector<float> rows_;
  std::vector<double> betas_;
  Answer said_;
};

TEST(ExpertTurns, WriteWhatTheDefinitionSays) {
  int switches = 0;
  for (std::uint64_t tag = 0; tag < 8; tag += 2) {
    for (const bool copies : {false, true}) {
      PromptSegment request = TurnsRequest(tag, copies, 20);
      const Answer expected = Definition(request).Write();
      const Answer found = testing_support::RunOne(request);
      EXPECT_EQ(found.tokens, expected.tokens) << tag << copies;
      EXPECT_EQ(found.experts, expected.experts) << tag << copies;
      for (size_t t = 1; t < found.experts.size(); ++t) {
        switches += found.experts[t] != found.experts[t - 1] ? 1 : 0;
      }
    }
  }
  EXPECT_GT(switches, 5);
}

TEST(ExpertTurns, AreTheSameInAnyCompany) {
  std::vector<PromptSegment> requests;
  for (std::uint64_t tag = 0; tag < 10; ++tag)
    requests.push_back(TurnsRequest(tag, tag % 3 == 0, 40));
  const AnswersByTag expected = AnswersAlone(requests);
  for (const Strategy strategy :
       {Strategy::kFlat, Strategy::kPaged, Strategy::kStacked, Strategy::kTree, Strategy::kAuto}) {
    for (const int steps_ahead : {0, 1}) {
      for (const int pages : {0, strategy == Strategy::kFlat ? 125 : 90}) {
        EngineOptions options;
        options.strategy = strategy;
        options.steps_ahead = steps_ahead;
        options.kv_memory = pages * PageBytes();
        options.batch_rows = pages > 0 ? 40 : 0;
        Engine engine(SharedModel(), options);
        ExpectSameAnswers(expected, RunAll(engine, requests));
        if (::testing::Test::HasFailure()) FAIL() << StrategyName(strategy) << pages;
      }
    }
  }
}

// Every span that the experts copy stands in one of their texts; the last one in the last expert's.
TEST(ExpertTurns, CopyWhatATextHas) {
  for (std::uint64_t tag = 0; tag < 20; ++tag) {
    const Answer answer = testing_support::RunOne(TurnsRequest(tag, /*copies=*/true, 60));
    std::string text;
    for (const TokenId token : answer.tokens) {
      text += SharedModel()->text()->parts().tokenizer->TokenBytes(token);
    }
    if (text == "null" || answer.finish == FinishReason::kLength) continue;
    EXPECT_TRUE(Joined()->Matches(text)) << text;
    const size_t last = text.rfind("; ");
    if (last != std::string::npos) text.erase(0, last + 2);
    EXPECT_TRUE(HasFromWord(kTexts[static_cast<size_t>(answer.experts.back())], text)) << text;
  }
}

}  // namespace
}  // namespace banyan
