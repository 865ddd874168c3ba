#include "engine/request_tree.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"

namespace banyan {
namespace {

void CheckTokens(std::span<const TokenId> tokens, int vocab_size) {
  for (const TokenId token : tokens) {
    if (token < 0 || token >= vocab_size) {
      Throw(ErrorKind::kInput, "token id {} is out of range: expected 0 to {}", token,
            vocab_size - 1);
    }
  }
}

// Written so that NaN is refused too.
void CheckSampling(const SamplingOptions& sampling) {
  const auto check = [](bool good, const char* name, double found, const char* expected) {
    if (!good) Throw(ErrorKind::kInput, "{} is {}: expected {}", name, found, expected);
  };
  check(sampling.temperature >= 0.0f && std::isfinite(sampling.temperature), "temperature",
        sampling.temperature, "0 or more");
  check(sampling.top_k >= 0, "top_k", sampling.top_k, "0 or more");
  check(sampling.top_p >= 0.0f && sampling.top_p <= 1.0f, "top_p", sampling.top_p, "0 to 1");
  check(sampling.min_p >= 0.0f && sampling.min_p <= 1.0f, "min_p", sampling.min_p, "0 to 1");
  check(sampling.repetition_penalty > 0.0f && std::isfinite(sampling.repetition_penalty),
        "repetition_penalty", sampling.repetition_penalty, "more than 0");
}

void CheckAnswer(const AnswerRequest& answer, const Model::Parts& model) {
  CheckTokens(answer.forced, model.config.vocab_size);
  CheckSampling(answer.sampling);
  if (answer.max_new < 0)
    Throw(ErrorKind::kInput, "max_new is {}: expected 0 or more", answer.max_new);
  if (answer.top_logprobs < 0) {
    Throw(ErrorKind::kInput, "top_logprobs is {}: expected 0 or more", answer.top_logprobs);
  }
  for (const std::string& stop : answer.stop_strings) {
    if (stop.empty()) Throw(ErrorKind::kInput, "a stop string is empty");
  }
  if (!answer.stop_strings.empty() && model.text == nullptr) {
    Throw(ErrorKind::kInput, "stop strings need a tokenizer, and the model's files have none");
  }
}

void CheckPanel(const AnswerRequest& answer) {
  const PanelOptions& panel = *answer.panel;
  const bool good_beta = panel.beta >= 0.0 && std::isfinite(panel.beta);
  if (panel.beta_rule == BetaRule::kFixed && !good_beta) {
    Throw(ErrorKind::kInput, "beta is {}: expected 0 or more", panel.beta);
  }
  if (!(panel.gamma >= 0.0 && std::isfinite(panel.gamma))) {
    Throw(ErrorKind::kInput, "gamma is {}: expected 0 or more", panel.gamma);
  }
  if (answer.want_logits) {
    Throw(ErrorKind::kInput, "an answer of several experts has no logits of one prompt");
  }
}

// Where a path stands after a segment.
struct PathEnd {
  std::int32_t segment = -1;
  std::int32_t position = 0;
};

class Checker {
 public:
  Checker(const Model::Parts& model, bool sequential) : model_(model), sequential_(sequential) {}

  // `above`: the position where the path ends. Returns where it ends after the segment itself.
  std::int64_t Check(const PromptSegment& segment, std::int64_t above, bool has_tokens) {
    CheckTokens(segment.tokens, model_.config.vocab_size);
    size_.tokens += static_cast<std::int64_t>(segment.tokens.size());
    size_.answers += static_cast<std::int64_t>(segment.answers.size());
    const std::int64_t end = EndOf(segment, above);
    has_tokens = has_tokens || !segment.tokens.empty();
    if (segment.skeleton && sequential_) {
      Throw(ErrorKind::kUnsupported,
            "strategy sequential: a skeleton's values are written together");
    }
    if (segment.skeleton) CheckSkeleton(segment, end);
    for (const AnswerRequest& answer : segment.answers) {
      CheckAnswer(answer, model_);
      CheckPrompt(end, has_tokens);
      if (!answer.panel) continue;
      CheckPanel(answer);
      if (!panels_.emplace(answer.tag, 0).second) {
        Throw(ErrorKind::kInput, "two answers with experts have the tag {}", answer.tag);
      }
    }
    for (const ExpertRequest& expert : segment.experts) {
      CheckPrompt(end, has_tokens);
      if (!(expert.relevance > 0.0 && expert.relevance <= 1.0)) {
        Throw(ErrorKind::kInput, "an expert's relevance is {}: expected more than 0, at most 1",
              expert.relevance);
      }
      experts_.push_back(expert.tag);
    }
    for (const PromptSegment& child : segment.below) Check(child, end, has_tokens);
    return end;
  }

  const RequestSize& size() const { return size_; }  // of what was checked

  // After Check: experts and answers find one another.
  void CheckPanels(const RequestRules& rules) {
    for (const std::uint64_t tag : experts_) {
      const auto panel = panels_.find(tag);
      if (panel == panels_.end()) {
        Throw(ErrorKind::kInput,
              "an expert names the answer {}: no answer with experts has that tag", tag);
      }
      ++panel->second;
    }
    for (const auto& [tag, experts] : panels_) {
      if (experts == 0) Throw(ErrorKind::kInput, "the answer {} has no experts", tag);
      if (experts >= rules.most_branches) {
        Throw(ErrorKind::kLimit,
              "{} experts and the prior are one step's work: it takes at most {} streams here",
              experts, rules.most_branches);
      }
      if (rules.sequential) {
        Throw(ErrorKind::kUnsupported, "experts and the strategy sequential do not go together");
      }
    }
  }

  // A prompt of several questions, one after another.
  void CheckSequence(const PromptSegment& segment, std::int64_t above, bool has_tokens) {
    std::int64_t end = EndOf(segment, above);
    has_tokens = has_tokens || !segment.tokens.empty();
    bool asked = false;
    for (const PromptSegment& child : segment.below) {
      end = EndOf(child, end);
      has_tokens = has_tokens || !child.tokens.empty();
      asked = asked || !child.answers.empty();
    }
    if (asked) CheckPrompt(end, has_tokens);
  }

 private:
  // `end`: where its first piece ends.
  static void CheckSkeleton(const PromptSegment& first, std::int64_t end) {
    for (const PromptSegment* piece = &first;;) {
      const bool one_answer = piece->answers.size() == 1;
      if (piece->tokens.empty() || !one_answer || piece->below.size() > 1) {
        Throw(ErrorKind::kInput,
              "a piece of a skeleton has {} tokens, {} answers and {} pieces after it: expected at "
              "least one token, one answer, and no more than one piece",
              piece->tokens.size(), piece->answers.size(), piece->below.size());
      }
      if (piece->answers.front().panel || !piece->experts.empty()) {
        Throw(ErrorKind::kUnsupported, "a value of a skeleton is not written by experts");
      }
      if (piece->below.empty()) return;
      const AnswerRequest& value = piece->answers.front();
      const auto room = value.forced.empty() ? std::int64_t{value.max_new}
                                             : static_cast<std::int64_t>(value.forced.size());
      piece = &piece->below.front();
      const std::int64_t next = piece->first_position.value_or(end);
      if (piece->skeleton || next < end + room) {
        Throw(ErrorKind::kInput,
              "a piece of a skeleton begins at position {}: the value before it needs {} positions "
              "from {} on",
              next, room, end);
      }
      end = next + static_cast<std::int64_t>(piece->tokens.size());
    }
  }

  static std::int64_t EndOf(const PromptSegment& segment, std::int64_t above) {
    const std::int64_t first = segment.first_position.value_or(above);
    if (first < above) {
      Throw(ErrorKind::kInput,
            "a segment begins at position {}: the one above it ends at {}, expected no less", first,
            above);
    }
    return segment.tokens.empty() ? above
                                  : first + static_cast<std::int64_t>(segment.tokens.size());
  }

  void CheckPrompt(std::int64_t end, bool has_tokens) const {
    if (!has_tokens) {
      Throw(ErrorKind::kInput, "the prompt is empty: expected at least one token");
    }
    const int room = model_.config.context_length;
    if (end > room) {
      Throw(ErrorKind::kLimit, "the prompt has {} tokens: the model's context holds {}", end, room);
    }
  }

  const Model::Parts& model_;
  const bool sequential_;
  RequestSize size_;
  std::map<std::uint64_t, int> panels_;  // tag of an answer → experts
  std::vector<std::uint64_t> experts_;   // tags
};

bool AllLeaves(const PromptSegment& segment) {
  return !segment.below.empty() &&
         std::ranges::all_of(segment.below, [](const PromptSegment& c) { return c.below.empty(); });
}

class TreeBuilder {
 public:
  TreeBuilder(RequestTree& tree, bool sequential) : tree_(tree), sequential_(sequential) {}

  void Visit(PromptSegment& segment, PathEnd end) {
    if (segment.skeleton) {
      segment.skeleton = false;
      const auto first = static_cast<std::int32_t>(tree_.streams.size());
      Visit(segment, end);
      AddSkeleton(first);
      return;
    }
    end = AddSegment(segment, end);
    for (AnswerRequest& answer : segment.answers) {
      const std::optional<PanelOptions> panel = answer.panel;
      const std::uint64_t tag = answer.tag;
      AddAnswer(answer);
      AddStream(end.segment, 1);
      if (!panel) continue;
      tree_.streams.back().panel = panel_of_tag_[tag] =
          static_cast<std::int32_t>(tree_.panels.size());
      tree_.panels.push_back({*panel, {}});
    }
    for (const ExpertRequest& expert : segment.experts) experts_.emplace_back(expert, end.segment);
    if (sequential_ && AllLeaves(segment)) return OneAfterAnother(segment, end);
    for (PromptSegment& child : segment.below) Visit(child, end);
  }

  // After Visit: experts join their panels, in the order of the tree.
  void FillPanels() {
    for (const auto& [expert, leaf] : experts_) {
      const auto panel = static_cast<size_t>(panel_of_tag_.at(expert.tag));
      tree_.panels[panel].experts.push_back({leaf, expert.relevance});
    }
  }

 private:
  // All questions in one prompt, their answers written in turn.
  void OneAfterAnother(PromptSegment& segment, PathEnd end) {
    std::int32_t answers = 0;
    for (PromptSegment& child : segment.below) {
      end = AddSegment(child, end);
      for (AnswerRequest& answer : child.answers) AddAnswer(answer);
      answers += static_cast<std::int32_t>(child.answers.size());
    }
    if (answers > 0) AddStream(end.segment, answers);
  }

  PathEnd AddSegment(PromptSegment& segment, PathEnd above) {
    if (segment.tokens.empty()) return above;
    RequestSegment& added = tree_.segments.emplace_back();
    added.parent = above.segment;
    added.tokens = std::move(segment.tokens);
    added.first_position = segment.first_position.value_or(above.position);
    tree_.tokens += static_cast<std::int64_t>(added.tokens.size());
    return {static_cast<std::int32_t>(tree_.segments.size()) - 1, added.end_position()};
  }

  void AddAnswer(AnswerRequest& answer) { tree_.answers.push_back(std::move(answer)); }

  // For the answers that were added last.
  void AddStream(std::int32_t leaf, std::int32_t answers) {
    RequestStream& stream = tree_.streams.emplace_back();
    stream.leaf = leaf;
    stream.end_answer = static_cast<std::int32_t>(tree_.answers.size());
    stream.first_answer = stream.end_answer - answers;
  }

  // Of the streams from `first` on.
  void AddSkeleton(std::int32_t first) {
    const auto index = static_cast<std::int32_t>(tree_.skeletons.size());
    const auto end = static_cast<std::int32_t>(tree_.streams.size());
    tree_.skeletons.push_back({first, end});
    for (auto i = static_cast<size_t>(first); i < tree_.streams.size(); ++i) {
      tree_.streams[i].skeleton = index;
    }
  }

  RequestTree& tree_;
  const bool sequential_;
  std::map<std::uint64_t, std::int32_t> panel_of_tag_;
  std::vector<std::pair<ExpertRequest, std::int32_t>> experts_;  // with their leaves
};

void CheckSequences(Checker& checker, const PromptSegment& segment, std::int64_t above,
                    bool has_tokens) {
  if (AllLeaves(segment)) return checker.CheckSequence(segment, above, has_tokens);
  const std::int64_t first = segment.first_position.value_or(above);
  const auto size = static_cast<std::int64_t>(segment.tokens.size());
  for (const PromptSegment& child : segment.below) {
    CheckSequences(checker, child, size == 0 ? above : first + size, has_tokens || size > 0);
  }
}

}  // namespace

std::vector<std::int32_t> RequestTree::PathTo(std::int32_t segment) const {
  std::vector<std::int32_t> path;
  for (; segment >= 0; segment = segments[static_cast<size_t>(segment)].parent) {
    path.push_back(segment);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<std::int32_t> RequestTree::LeavesOf(const RequestStream& stream) const {
  std::vector<std::int32_t> leaves = {stream.leaf};
  if (stream.panel < 0) return leaves;
  for (const RequestPanel::Expert& expert : panels[static_cast<size_t>(stream.panel)].experts) {
    leaves.push_back(expert.leaf);
  }
  return leaves;
}

int RequestTree::BranchesOf(const RequestStream& stream) const {
  if (stream.panel < 0) return 1;
  return 1 + static_cast<int>(panels[static_cast<size_t>(stream.panel)].experts.size());
}

std::int32_t RequestTree::PromptTokens(const RequestStream& stream) const {
  std::int32_t count = 0;
  for (const std::int32_t leaf : LeavesOf(stream)) {
    for (std::int32_t at = leaf; at >= 0; at = segments[static_cast<size_t>(at)].parent) {
      count += static_cast<std::int32_t>(segments[static_cast<size_t>(at)].tokens.size());
    }
  }
  return count;
}

RequestSize CheckRequest(const PromptSegment& request, const Model::Parts& model,
                         const RequestRules& rules) {
  Checker checker(model, rules.sequential);
  checker.Check(request, 0, false);
  checker.CheckPanels(rules);
  if (rules.sequential) CheckSequences(checker, request, 0, false);
  return checker.size();
}

std::shared_ptr<RequestTree> MakeRequestTree(PromptSegment& request, bool sequential) {
  auto tree = std::make_shared<RequestTree>();
  TreeBuilder builder(*tree, sequential);
  builder.Visit(request, {});
  builder.FillPanels();
  tree->streams_left = static_cast<std::int32_t>(tree->streams.size());
  return tree;
}

}  // namespace banyan
