// Decoding with draft tokens: prompts, steps, verification.
#include "baseline/speculative.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "banyan/constrain.h"
#include "base/error.h"
#include "baseline/guesses.h"
#include "baseline/path_runner.h"
#include "load/model_parts.h"

namespace banyan {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kDraftStepRows = 512;
constexpr int kShortSegment = kCutKeys / 2;  // is one segment with its answer (tree/forest.h)

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class DraftedRun {
 public:
  DraftedRun(Model& model, std::span<const PromptSegment> requests, const DraftOptions& options)
      : options_(options), model_(model.parts()), runner_(model_, kDraftStepRows) {
    if (options.model) {
      if (options.model->vocab_size() != model.vocab_size()) {
        Throw(ErrorKind::kUsage, "the draft model has {} tokens, the model {}",
              options.model->vocab_size(), model.vocab_size());
      }
      drafter_ = std::make_unique<PathRunner>(options.model->parts(), kDraftStepRows);
    }
    for (const PromptSegment& request : requests) Add(request, -1, {}, 0);
    runner_.Allocate();
    if (drafter_) drafter_->Allocate();
    guesses_.emplace(options_, drafter_.get(), report_);
  }

  DraftedAnswers Run() {
    const auto begin = Clock::now();
    Prefill(runner_);
    if (drafter_) Prefill(*drafter_);
    TakeFirstTokens();
    DraftedAnswers out;
    const std::int64_t steps = runner_.steps();
    const double first = SecondsSince(begin);
    while (DecodeRound()) {
    }
    out.report = report_;
    out.report.seconds = SecondsSince(begin);
    out.report.decode_seconds = out.report.seconds - first;
    out.report.steps = runner_.steps();
    out.report.decode_steps = runner_.steps() - steps;
    out.report.rows = runner_.rows();
    if (drafter_) {
      out.report.draft_rows = drafter_->rows();
    }
    for (DraftedStream& stream : streams_) {
      out.report.tokens += static_cast<std::int64_t>(stream.answer.tokens.size());
      out.answers.push_back(std::move(stream.answer));
    }
    return out;
  }

 private:
  struct Prompt {  // a segment of a prompt, in both runners under one number
    std::vector<TokenId> tokens;
    int depth = 0;
  };

  // --- The tree
  int NewSegment(int above, std::int32_t most) {
    if (drafter_) drafter_->AddSegment(above, most);
    return runner_.AddSegment(above, most);
  }

  int FindSegment(int above, const std::vector<TokenId>& tokens, int depth) {
    const auto [place, is_new] = known_.try_emplace({above, tokens}, 0);
    if (is_new) {
      place->second = NewSegment(above, static_cast<std::int32_t>(tokens.size()));
      prompts_[place->second] = {tokens, depth};
    }
    return place->second;
  }

  void Add(const PromptSegment& segment, int above, std::vector<TokenId> text, int depth) {
    if (segment.skeleton || segment.first_position || !segment.experts.empty()) {
      Throw(ErrorKind::kUnsupported, "drafts: expected plain prompts");
    }
    text.insert(text.end(), segment.tokens.begin(), segment.tokens.end());
    for (const AnswerRequest& wanted : segment.answers)
      AddStream(segment, above, text, depth, wanted);
    if (segment.below.empty()) return;
    const int here = segment.tokens.empty() ? above : FindSegment(above, segment.tokens, depth);
    for (const PromptSegment& below : segment.below) Add(below, here, text, depth + 1);
  }

  void AddStream(const PromptSegment& segment, int above, const std::vector<TokenId>& text,
                 int depth, const AnswerRequest& wanted) {
    if (wanted.sampling.temperature > 0 || wanted.panel || !wanted.forced.empty() ||
        wanted.sampling.repetition_penalty != 1.0f || !wanted.stop_strings.empty()) {
      Throw(ErrorKind::kUnsupported, "drafts: expected greedy answers");
    }
    const auto size = static_cast<std::int32_t>(text.size());
    if (size >= model_.config.context_length || segment.tokens.empty()) {
      Throw(ErrorKind::kLimit, "a prompt has {} tokens: the model's context holds {}", size,
            model_.config.context_length);
    }
    DraftedStream& stream = streams_.emplace_back();
    stream.wanted = &wanted;
    stream.text = text;
    stream.most = std::min(wanted.max_new, model_.config.context_length - size);
    stream.answer.tag = wanted.tag;
    stream.answer.prompt_tokens = size;
    if (wanted.constraint) stream.constraint.emplace(wanted.constraint);
    const auto own = static_cast<std::int32_t>(segment.tokens.size());
    if (own <= kShortSegment) {
      stream.tail = stream.question = NewSegment(above, own + stream.most);
      prompts_[stream.question] = {segment.tokens, depth};
      stream.own = segment.tokens;
    } else {
      stream.question = NewSegment(above, own);  // its last logits are needed for each answer
      prompts_[stream.question] = {segment.tokens, depth};
      stream.tail = NewSegment(stream.question, stream.most);
    }
  }

  // --- Prompts, level by level; the last segments of streams without their last token, whose
  // logits come with the first tokens.
  void Prefill(PathRunner& runner) const {
    std::map<std::pair<int, int>, int> by_level;  // (depth, order) → segment
    for (const auto& [number, prompt] : prompts_) {
      by_level[{prompt.depth, runner.Order(number)}] = number;
    }
    std::vector<bool> is_last(streams_.empty() ? 0 : prompts_.rbegin()->first + 1);
    for (const DraftedStream& stream : streams_)
      is_last[static_cast<size_t>(stream.question)] = true;
    std::vector<SegmentFeed> feeds;
    int rows = 0, level = -1;
    const auto flush = [&] {
      if (!feeds.empty()) runner.Step(feeds);
      feeds.clear();
      rows = 0;
    };
    for (const auto& [place, number] : by_level) {
      if (place.first != level) flush();
      level = place.first;
      std::span<const TokenId> left = prompts_.at(number).tokens;
      if (is_last[static_cast<size_t>(number)]) left = left.first(left.size() - 1);
      while (!left.empty()) {
        const auto part = std::min(left.size(), static_cast<size_t>(runner.most_rows() - rows));
        feeds.push_back({number, left.first(part), 0});
        rows += static_cast<int>(part);
        left = left.subspan(part);
        if (rows == runner.most_rows()) flush();
      }
    }
    flush();
  }

  void TakeFirstTokens() {
    for (DraftedStream& stream : streams_) {
      stream.guesses.clear();
      if (stream.most == 0) stream.done = true;
    }
    // The question's last token is fed, in the segment of the question.
    ForGroups(1, [&](std::span<DraftedStream*> group) {
      std::vector<SegmentFeed> feeds;
      for (DraftedStream* stream : group) {
        feeds.push_back({stream->question, std::span(stream->text).last(1), 1});
        AddMasks(*stream);
      }
      if (drafter_) drafter_->Step(feeds);  // first: Verify moves the texts that `feeds` views
      Verify(group, runner_.Step(feeds), /*question=*/true);
    });
  }

  // --- Rounds. Groups of running streams, in the order of their tails, as many as a step has rows
  // for.
  template <typename Work>
  bool ForGroups(int rows_each, const Work& work) {
    std::vector<DraftedStream*> running;
    for (DraftedStream& stream : streams_) {
      if (!stream.done) running.push_back(&stream);
    }
    std::ranges::sort(running, {}, [&](const DraftedStream* s) { return runner_.Order(s->tail); });
    const size_t most = std::max(1, runner_.most_rows() / rows_each);
    for (size_t begin = 0; begin < running.size(); begin += most) {
      work(std::span(running).subspan(begin, std::min(most, running.size() - begin)));
    }
    return !running.empty();
  }

  bool DecodeRound() {
    return ForGroups(1 + options_.tokens, [&](std::span<DraftedStream*> group) {
      guesses_->Guess(group);
      std::vector<std::vector<TokenId>> fed;
      std::vector<SegmentFeed> feeds;
      fed.reserve(group.size());
      for (DraftedStream* stream : group) {
        std::vector<TokenId>& tokens = fed.emplace_back();
        tokens.push_back(stream->own.back());
        tokens.insert(tokens.end(), stream->guesses.begin(), stream->guesses.end());
        feeds.push_back({stream->tail, tokens, static_cast<int>(tokens.size())});
        AddMasks(*stream);
      }
      Verify(group, runner_.Step(feeds), /*question=*/false);
    });
  }

  // What may come after the last token, and after each guess.
  static void AddMasks(DraftedStream& stream) {
    stream.masks.clear();
    if (!stream.constraint) return;
    ConstraintState state = *stream.constraint;
    stream.masks.push_back(state.AllowedMask());
    for (const TokenId guess : stream.guesses) {
      BANYAN_CHECK(state.Advance(guess));  // AddGuess has asked
      stream.masks.push_back(state.AllowedMask());
    }
  }

  void Verify(std::span<DraftedStream*> group, const Tensor& logits, bool question) {
    std::vector<SamplingRow> rows;
    for (const DraftedStream* stream : group) {
      for (size_t i = 0; i <= stream->guesses.size(); ++i) {
        SamplingRow& row = rows.emplace_back();
        row.row = static_cast<std::int32_t>(rows.size()) - 1;
        if (stream->constraint) row.allowed = *stream->masks[i];
      }
    }
    std::vector<TokenChoice> choices(rows.size());
    model_.kernels->SelectTokens(logits, rows, choices);
    size_t first = 0;
    for (DraftedStream* stream : group) {
      const size_t guesses = stream->guesses.size();
      const auto kept = static_cast<std::int32_t>(Keep(*stream, std::span(choices).subspan(first)));
      first += guesses + 1;
      ++report_.turns;
      report_.kept += kept;
      if (question) continue;
      runner_.TakeBack(stream->tail,
                       runner_.filled(stream->tail) - static_cast<std::int32_t>(guesses) + kept);
      if (!drafter_) continue;
      // Of what the draft model has read, what came true; the last token has no keys yet.
      const auto right = static_cast<std::int32_t>(stream->own.size()) - 1;
      drafter_->TakeBack(stream->tail, std::min(drafter_->filled(stream->tail), right));
    }
  }

  // Takes the model's choices as long as the guesses before them are right. Returns how many were.
  static size_t Keep(DraftedStream& stream, std::span<const TokenChoice> choices) {
    size_t kept = 0;
    while (true) {
      const TokenChoice& choice = choices[kept];
      if (choice.token == kNoToken) Throw(ErrorKind::kInput, "no allowed token has a finite logit");
      Answer& answer = stream.answer;
      answer.tokens.push_back(choice.token);
      answer.logprobs.push_back(choice.logprob);
      stream.own.push_back(choice.token);
      stream.text.push_back(choice.token);
      const bool right = kept < stream.guesses.size() && stream.guesses[kept] == choice.token;
      if (stream.IsStop(choice.token) ||
          (stream.constraint &&
           (!stream.constraint->Advance(choice.token) || stream.constraint->MustEnd()))) {
        answer.finish = FinishReason::kStopToken;
        stream.done = true;
      } else if (static_cast<std::int32_t>(answer.tokens.size()) >= stream.most) {
        answer.finish = FinishReason::kLength;
        stream.done = true;
      }
      if (stream.done || !right) return kept;
      ++kept;
    }
  }

  const DraftOptions& options_;
  Model::Parts& model_;
  PathRunner runner_;
  std::unique_ptr<PathRunner> drafter_;
  std::map<std::pair<int, std::vector<TokenId>>, int> known_;
  std::map<int, Prompt> prompts_;  // by segment
  std::vector<DraftedStream> streams_;
  DraftReport report_;
  std::optional<GuessMaker> guesses_;
};

}  // namespace

DraftedAnswers DecodeWithDrafts(const std::shared_ptr<Model>& model,
                                std::span<const PromptSegment> requests,
                                const DraftOptions& options) {
  return DraftedRun(*model, requests, options).Run();
}

}  // namespace banyan
