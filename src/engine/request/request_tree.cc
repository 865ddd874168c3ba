#include "engine/request/request_tree.h"

#include <algorithm>
#include <map>
#include <utility>

namespace banyan {
namespace {

// Where a path stands after a segment.
struct PathEnd {
  std::int32_t segment = -1;
  std::int32_t position = 0;
};

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
      tree_.panels[panel].experts.push_back({leaf, expert.relevance, expert.own_text});
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
    added.keep_as = std::move(segment.keep_as);
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

// Divides the last segments of prompts. How a path is divided depends on the path alone: a segment
// with others below it stays as it is for their paths.
class LastTokensApart {
 public:
  explicit LastTokensApart(RequestTree& tree) : tree_(tree), declared_(tree.segments.size()) {
    for (const RequestSegment& segment : tree.segments) {
      if (segment.parent >= 0) DeclaredAt(segment.parent).has_below = true;
    }
  }

  void Divide() {
    ForEachLeaf([this](std::int32_t& leaf) { ++DeclaredAt(leaf).prompts; });
    ForEachLeaf([this](std::int32_t& leaf) { leaf = LastTokenOf(leaf); });
  }

 private:
  // A text before a prompt's last token is shorter than this where it is computed anew for every
  // prompt, rather than that its state is kept.
  static constexpr size_t kShortTokens = 128;

  struct Declared {
    bool has_below = false;
    int prompts = 0;         // that end with it
    std::int32_t last = -1;  // the segment of the last token; -1: none yet
  };

  Declared& DeclaredAt(std::int32_t segment) { return declared_[static_cast<size_t>(segment)]; }

  template <typename Function>
  void ForEachLeaf(Function function) {
    for (RequestStream& stream : tree_.streams) function(stream.leaf);
    for (RequestPanel& panel : tree_.panels) {
      for (RequestPanel::Expert& expert : panel.experts) function(expert.leaf);
    }
  }

  std::int32_t Add(RequestSegment segment) {
    tree_.segments.push_back(std::move(segment));
    return static_cast<std::int32_t>(tree_.segments.size()) - 1;
  }

  // The segment of its last token, made when it is first asked for.
  std::int32_t LastTokenOf(std::int32_t leaf) {
    Declared& declared = DeclaredAt(leaf);
    if (declared.last < 0) declared.last = Divided(leaf, declared);
    return declared.last;
  }

  std::int32_t Divided(std::int32_t leaf, const Declared& declared) {
    RequestSegment before = tree_.segments[static_cast<size_t>(leaf)];
    const bool kept = !before.keep_as.empty();
    if (before.tokens.size() == 1) {
      if (kept) return leaf;
      before.own = true;
      return Replace(leaf, declared, std::move(before));
    }
    RequestSegment last;
    last.tokens = {before.tokens.back()};
    last.first_position = before.end_position() - 1;
    last.own = true;
    before.tokens.pop_back();
    before.own = !kept && declared.prompts == 1 && before.tokens.size() < kShortTokens;
    if (declared.has_below) ++tree_.tokens;
    last.parent = Replace(leaf, declared, std::move(before));
    return Add(std::move(last));
  }

  // `segment` is what `leaf` is to the prompts that end with it.
  std::int32_t Replace(std::int32_t leaf, const Declared& declared, RequestSegment segment) {
    if (declared.has_below) {
      tree_.tokens += static_cast<std::int64_t>(segment.tokens.size());
      return Add(std::move(segment));
    }
    tree_.segments[static_cast<size_t>(leaf)] = std::move(segment);
    return leaf;
  }

  RequestTree& tree_;
  std::vector<Declared> declared_;  // [segments]
};

}  // namespace

bool AllLeaves(const PromptSegment& segment) {
  return !segment.below.empty() &&
         std::ranges::all_of(segment.below, [](const PromptSegment& c) { return c.below.empty(); });
}

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

std::shared_ptr<RequestTree> MakeRequestTree(PromptSegment& request, const TreeForm& form) {
  auto tree = std::make_shared<RequestTree>();
  TreeBuilder builder(*tree, form.sequential);
  builder.Visit(request, {});
  builder.FillPanels();
  if (form.last_tokens_apart) LastTokensApart(*tree).Divide();
  tree->streams_left = static_cast<std::int32_t>(tree->streams.size());
  return tree;
}

}  // namespace banyan
