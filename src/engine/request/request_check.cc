#include "engine/request/request_check.h"

#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "engine/request/request_tree.h"

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

void CheckShare(const char* name, double share) {
  if (share >= 0.0 && share <= 1.0) return;
  Throw(ErrorKind::kInput, "{} is {}: expected 0 to 1", name, share);
}

void CheckPanel(const AnswerRequest& answer, const Model::Parts& model) {
  const PanelOptions& panel = *answer.panel;
  CheckShare("plausibility", panel.plausibility);
  CheckShare("abstention", panel.abstention);
  CheckTokens(panel.null_tokens, model.config.vocab_size);
  const bool good_beta = panel.beta >= 0.0 && std::isfinite(panel.beta);
  if (panel.beta_rule == BetaRule::kFixed && !good_beta) {
    Throw(ErrorKind::kInput, "beta is {}: expected 0 or more", panel.beta);
  }
  if (!panel.prior && (panel.beta_rule != BetaRule::kFixed || panel.beta != 0.0)) {
    Throw(ErrorKind::kInput, "a panel without a prior: expected a fixed beta of 0");
  }
  if (!(panel.gamma >= 0.0 && std::isfinite(panel.gamma))) {
    Throw(ErrorKind::kInput, "gamma is {}: expected 0 or more", panel.gamma);
  }
  if (answer.want_logits) {
    Throw(ErrorKind::kInput, "an answer of several experts has no logits of one prompt");
  }
  if (panel.switching == SwitchRule::kWord && model.text == nullptr) {
    Throw(ErrorKind::kInput,
          "experts that switch at words need a tokenizer, and the model's files have none");
  }
}

// Where an expert's segment stands.
struct ExpertPlace {
  const PromptSegment* segment = nullptr;
  const PromptSegment* above = nullptr;
  std::int64_t begin = 0, end = 0;  // positions
};

class Checker {
 public:
  Checker(const Model::Parts& model, const RequestRules& rules) : model_(model), rules_(rules) {}

  // `above`: the position where the path ends. Returns where it ends after the segment itself.
  std::int64_t Check(const PromptSegment& segment, std::int64_t above, bool has_tokens,
                     const PromptSegment* parent = nullptr) {
    CheckTokens(segment.tokens, model_.config.vocab_size);
    size_.tokens += static_cast<std::int64_t>(segment.tokens.size());
    size_.answers += static_cast<std::int64_t>(segment.answers.size());
    const std::int64_t end = EndOf(segment, above);
    has_tokens = has_tokens || !segment.tokens.empty();
    if (segment.skeleton && rules_.sequential) {
      Throw(ErrorKind::kUnsupported,
            "strategy sequential: a skeleton's values are written together");
    }
    if (segment.skeleton && model_.config.states.any()) {
      Throw(ErrorKind::kUnsupported,
            "a skeleton's values are written into gaps that later ones have seen, which needs "
            "attention in every layer: layers of {} keep states",
            model_.config.family);
    }
    if (segment.skeleton) CheckSkeleton(segment, end);
    for (const AnswerRequest& answer : segment.answers) {
      CheckAnswer(answer, model_);
      CheckPrompt(end, has_tokens);
      if (!answer.panel) continue;
      CheckPanel(answer, model_);
      const auto room = answer.forced.empty() ? std::int64_t{answer.max_new}
                                              : static_cast<std::int64_t>(answer.forced.size());
      if (!panels_.emplace(answer.tag, Panel{answer.panel->prior, room, {}}).second) {
        Throw(ErrorKind::kInput, "two answers with experts have the tag {}", answer.tag);
      }
    }
    for (const ExpertRequest& expert : segment.experts) {
      CheckPrompt(end, has_tokens);
      if (!(expert.relevance > 0.0 && expert.relevance <= 1.0)) {
        Throw(ErrorKind::kInput, "an expert's relevance is {}: expected more than 0, at most 1",
              expert.relevance);
      }
      const auto size = static_cast<std::int64_t>(segment.tokens.size());
      experts_.emplace_back(expert.tag, ExpertPlace{&segment, parent, end - size, end});
    }
    for (const PromptSegment& child : segment.below) Check(child, end, has_tokens, &segment);
    return end;
  }

  const RequestSize& size() const { return size_; }  // of what was checked

  // After Check: experts and answers find one another.
  void CheckPanels() {
    for (const auto& [tag, place] : experts_) {
      const auto panel = panels_.find(tag);
      if (panel == panels_.end()) {
        Throw(ErrorKind::kInput,
              "an expert names the answer {}: no answer with experts has that tag", tag);
      }
      panel->second.experts.push_back(place);
    }
    for (const auto& [tag, panel] : panels_) {
      const auto experts = static_cast<int>(panel.experts.size());
      if (experts == 0 && panel.prior) {
        Throw(ErrorKind::kInput, "the answer {} has no experts", tag);
      }
      if (experts >= rules_.most_branches) {
        Throw(ErrorKind::kLimit,
              "{} experts and the prior are one step's work: it takes at most {} streams here (see "
              "--max-streams and --batch-rows)",
              experts, rules_.most_branches);
      }
      if (rules_.sequential) {
        Throw(ErrorKind::kUnsupported, "experts and the strategy sequential do not go together");
      }
    }
    CheckSkeletonExperts();
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
  struct Panel {
    bool prior = true;
    std::int64_t room = 0;  // positions that the answer may take
    std::vector<ExpertPlace> experts;
  };

  // `end`: where its first piece ends.
  void CheckSkeleton(const PromptSegment& first, std::int64_t end) {
    std::vector<std::optional<std::uint64_t>> tags;  // [pieces] of values that panels write
    for (const PromptSegment* piece = &first;;) {
      const bool one_answer = piece->answers.size() == 1;
      if (piece->tokens.empty() || !one_answer || piece->below.size() > 1) {
        Throw(ErrorKind::kInput,
              "a piece of a skeleton has {} tokens, {} answers and {} pieces after it: expected at "
              "least one token, one answer, and no more than one piece",
              piece->tokens.size(), piece->answers.size(), piece->below.size());
      }
      const AnswerRequest& written = piece->answers.front();
      for (const ExpertRequest& expert : piece->experts) {
        if (written.panel && expert.tag == written.tag) continue;
        Throw(
            ErrorKind::kInput,
            "a piece of a skeleton is an expert of the answer {}: expected of its own value alone",
            expert.tag);
      }
      tags.push_back(written.panel ? std::optional(written.tag) : std::nullopt);
      if (piece->below.empty()) break;
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
    skeletons_.push_back(std::move(tags));
  }

  // The experts of a skeleton's values are pieces of skeletons too, one below the other, with the
  // same room for each value. REQUIRES: CheckPanels.
  void CheckSkeletonExperts() const {
    for (const std::vector<std::optional<std::uint64_t>>& tags : skeletons_) {
      for (size_t n = 0; n < tags.size(); ++n) {
        if (tags[n].has_value() != tags[0].has_value()) {
          Throw(ErrorKind::kInput,
                "a skeleton has values with experts and without: expected all or none");
        }
        if (n == 0 || !tags[n]) continue;
        CheckExpertPieces(panels_.at(*tags[n - 1]), panels_.at(*tags[n]));
      }
    }
  }

  static void CheckExpertPieces(const Panel& value, const Panel& next) {
    if (value.experts.size() != next.experts.size()) {
      Throw(ErrorKind::kInput, "the values of a skeleton have {} and {} experts: expected as many",
            value.experts.size(), next.experts.size());
    }
    for (size_t k = 0; k < value.experts.size(); ++k) {
      const ExpertPlace& piece = value.experts[k];
      const ExpertPlace& below = next.experts[k];
      if (below.above != piece.segment || below.begin < piece.end + value.room) {
        Throw(ErrorKind::kInput,
              "expert {} of a skeleton's value reads no piece below that of the value before, with "
              "{} positions between them",
              k, value.room);
      }
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
  const RequestRules& rules_;
  RequestSize size_;
  std::map<std::uint64_t, Panel> panels_;                       // by the answer's tag
  std::vector<std::pair<std::uint64_t, ExpertPlace>> experts_;  // with the answer's tag
  // [skeletons][pieces]: tags of values that panels write.
  std::vector<std::vector<std::optional<std::uint64_t>>> skeletons_;
};

// Segments below the first one.
void RefuseAdapter(const PromptSegment& segment) {
  if (!segment.adapter.empty()) {
    Throw(ErrorKind::kInput,
          "a segment below the first one names the adapter '{}': a request has one",
          segment.adapter);
  }
  for (const PromptSegment& below : segment.below) RefuseAdapter(below);
}

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

RequestSize CheckRequest(const PromptSegment& request, const Model::Parts& model,
                         const RequestRules& rules) {
  model.VariantOf(request.adapter);  // throws for an unknown name
  for (const PromptSegment& below : request.below) RefuseAdapter(below);
  Checker checker(model, rules);
  checker.Check(request, 0, false);
  checker.CheckPanels();
  if (rules.sequential) CheckSequences(checker, request, 0, false);
  return checker.size();
}

}  // namespace banyan
