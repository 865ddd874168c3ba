// Synthetic jobs: parsing, making requests, running under strategies, options.
#include "bench_run.h"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>

#include "banyan/error.h"

namespace banyan::app {
namespace {

constexpr int kMostCount = 1 << 24;

[[noreturn]] void Refuse(const std::string& text, const std::string& why) {
  throw Error(ErrorKind::kUsage,
              fmt::format("'{}': {}; expected such as '8 documents x 64 questions | 32, 2048, 256 "
                          "tokens'",
                          text, why));
}

// The numbers of one side of the bar: each followed by words, then a separator or the end.
std::vector<int> ReadNumbers(const std::string& text, const std::string& part, bool by_comma) {
  std::vector<int> numbers;
  size_t i = 0;
  const auto skip = [&](auto&& keep) {
    while (i < part.size() && keep(static_cast<unsigned char>(part[i]))) ++i;
  };
  const auto space = [](unsigned char c) { return std::isspace(c) != 0; };
  while (true) {
    skip(space);
    size_t digits = 0;
    std::int64_t number = 0;
    for (; i < part.size() && std::isdigit(static_cast<unsigned char>(part[i])); ++i, ++digits) {
      number = number * 10 + (part[i] - '0');
      if (number > kMostCount) Refuse(text, fmt::format("a number above {}", kMostCount));
    }
    if (digits == 0) Refuse(text, "a number is missing");
    if (number == 0) Refuse(text, "a number is zero");
    numbers.push_back(static_cast<int>(number));
    skip(space);
    // Words up to the separator; a lone x is one.
    while (i < part.size() && std::isalpha(static_cast<unsigned char>(part[i])) != 0) {
      const size_t word = i;
      skip([](unsigned char c) { return std::isalpha(c) != 0; });
      if (!by_comma && i - word == 1 && (part[word] == 'x' || part[word] == 'X')) {
        i = word;
        break;
      }
      skip(space);
    }
    if (i == part.size()) return numbers;
    const std::string times = "\u00d7";
    if (by_comma ? part[i] == ',' || part[i] == '/' : part[i] == 'x' || part[i] == 'X') {
      ++i;
    } else if (!by_comma && part.compare(i, times.size(), times) == 0) {
      i += times.size();
    } else {
      Refuse(text, fmt::format("'{}' is not understood", part.substr(i)));
    }
  }
}

class RequestMaker {
 public:
  RequestMaker(const Work& work, int streams, int vocab_size)
      : work_(work),
        left_(streams),
        vocab_(static_cast<std::uint64_t>(vocab_size)),
        random_(work.seed) {}

  void AddLevel(size_t level, std::vector<PromptSegment>& out) {
    for (int branch = 0; branch < work_.branches[level] && left_ > 0; ++branch) {
      PromptSegment segment;
      for (int i = 0; i < work_.lengths[level]; ++i) {
        segment.tokens.push_back(static_cast<TokenId>(random_() % vocab_));
      }
      if (level + 1 < work_.branches.size()) {
        AddLevel(level + 1, segment.below);
      } else {
        AnswerRequest answer;
        answer.tag = tag_++;
        answer.max_new = work_.max_new;
        segment.answers.push_back(std::move(answer));
        --left_;
      }
      out.push_back(std::move(segment));
    }
  }

 private:
  const Work& work_;
  int left_;
  std::uint64_t vocab_;
  std::mt19937_64 random_;
  std::uint64_t tag_ = 0;
};

double Rate(double count, double seconds) { return seconds > 0.0 ? count / seconds : 0.0; }

int StreamsFor(const BenchRun& run, const Work& work, Strategy strategy) {
  if (strategy != Strategy::kFlat || run.flat_tokens == 0) return work.streams();
  const std::int64_t most = std::max<std::int64_t>(1, run.flat_tokens / work.prompt_tokens());
  return static_cast<int>(std::min<std::int64_t>(most, work.streams()));
}

Outcome RunOnce(const BenchRun& run, const Work& work, Strategy strategy) {
  EngineOptions options = run.engine;
  options.strategy = strategy;
  if (options.mixed_rows == 0) options.mixed_rows = -1;  // only the end counts
  Outcome outcome;
  outcome.strategy = strategy;
  const int streams = StreamsFor(run, work, strategy);
  outcome.answers.resize(static_cast<size_t>(streams));
  Engine engine(run.model, options);
  for (PromptSegment& request : MakeRequests(work, streams, run.model->vocab_size())) {
    engine.Submit(std::move(request));
  }
  const auto take = [&] {
    for (Answer& answer : engine.TakeFinished()) outcome.answers[answer.tag] = std::move(answer);
  };
  const auto start = std::chrono::steady_clock::now();
  while (engine.Step()) take();
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  take();
  outcome.receipt = engine.receipt();
  for (const Answer& answer : outcome.answers) {
    if (answer.finish != FinishReason::kError) continue;
    throw Error(ErrorKind::kLimit, fmt::format("{}, strategy {}: stream {}: {}", work.name,
                                               StrategyName(strategy), answer.tag, answer.error));
  }
  return outcome;
}

// Tokens and log-probabilities, bit for bit, of the streams that both ran.
void RequireSameAnswers(const Work& work, const Outcome& a, const Outcome& b) {
  const size_t streams = std::min(a.answers.size(), b.answers.size());
  for (size_t i = 0; i < streams; ++i) {
    const Answer& x = a.answers[i];
    const Answer& y = b.answers[i];
    const bool same =
        x.tokens == y.tokens && x.logprobs.size() == y.logprobs.size() &&
        std::memcmp(x.logprobs.data(), y.logprobs.data(), x.logprobs.size() * sizeof(float)) == 0;
    if (same) continue;
    throw Error(
        ErrorKind::kInput,
        fmt::format("{}: {} and {} gave different answers to stream {}: no times are printed",
                    work.name, StrategyName(a.strategy), StrategyName(b.strategy), i));
  }
}

// The run with the median time, and the spread of all.
Outcome TakeMedian(std::vector<Outcome>& runs) {
  std::ranges::sort(runs, {}, &Outcome::seconds);
  const double least = runs.front().seconds, most = runs.back().seconds;
  const bool several = runs.size() > 1;
  Outcome median = std::move(runs[(runs.size() - 1) / 2]);
  if (several) median.least_seconds = least, median.most_seconds = most;
  return median;
}

// Of flat runs, unless --flat-tokens says otherwise: a second or two on either kind of machine.
constexpr std::int64_t kFlatTokensOnDevice = 60000, kFlatTokensOnCpu = 2000;

}  // namespace

int Work::streams() const {
  std::int64_t streams = 1;
  for (const int count : branches) {
    streams = std::min<std::int64_t>(streams * count, std::numeric_limits<int>::max());
  }
  return static_cast<int>(streams);
}

std::int64_t Work::prompt_tokens() const {
  std::int64_t tokens = 0;
  for (const int length : lengths) tokens += length;
  return tokens;
}

std::string Work::Text() const {
  return fmt::format("{} | {} tokens, {} new", fmt::join(branches, " x "), fmt::join(lengths, ", "),
                     max_new);
}

Work ParseWork(const std::string& text) {
  const size_t bar = text.find('|');
  if (bar == std::string::npos) Refuse(text, "no bar between counts and lengths");
  Work work;
  work.branches = ReadNumbers(text, text.substr(0, bar), false);
  work.lengths = ReadNumbers(text, text.substr(bar + 1), true);
  if (work.lengths.size() == work.branches.size() + 1) {
    work.branches.insert(work.branches.begin(), 1);
  }
  if (work.lengths.size() != work.branches.size()) {
    Refuse(text,
           fmt::format("{} counts and {} lengths", work.branches.size(), work.lengths.size()));
  }
  if (work.streams() > kMostCount) Refuse(text, fmt::format("more than {} streams", kMostCount));
  work.name = "tree";
  return work;
}

std::vector<PromptSegment> MakeRequests(const Work& work, int streams, int vocab_size) {
  std::vector<PromptSegment> roots;
  RequestMaker(work, streams, vocab_size).AddLevel(0, roots);
  return roots;
}

double Outcome::questions_per_second() const { return Rate(streams(), seconds); }

double Outcome::tokens_per_second() const {
  return Rate(static_cast<double>(receipt.generated_tokens), seconds);
}

double Outcome::decode_tokens_per_second() const {
  return Rate(static_cast<double>(receipt.decode_step_tokens), receipt.decode_step_seconds);
}

double Outcome::seconds_per_decode_step() const {
  return receipt.decode_steps > 0
             ? receipt.decode_step_seconds / static_cast<double>(receipt.decode_steps)
             : 0.0;
}

const Outcome* WorkResult::Find(Strategy strategy) const {
  for (const Outcome& outcome : outcomes) {
    if (outcome.strategy == strategy) return &outcome;
  }
  return nullptr;
}

double WorkResult::limit_seconds() const {
  double least = 0.0;
  for (const Outcome& outcome : outcomes) {
    const double limit = outcome.receipt.limit_seconds;
    if (ComparisonOnly(outcome.strategy) || outcome.streams() < work.streams() || limit <= 0.0) {
      continue;
    }
    least = least > 0.0 ? std::min(least, limit) : limit;
  }
  return least;
}

bool ComparisonOnly(Strategy strategy) {
  return strategy == Strategy::kSequential || strategy == Strategy::kNoAttention;
}

WorkResult RunWork(const BenchRun& run, const Work& work) {
  WorkResult result;
  result.work = work;
  result.compared = run.model->exact();
  run.model->flops_per_second();  // measured before KV takes the memory
  if (run.warm_up) {
    if (!run.quiet) std::fprintf(stderr, "%s: warm-up ...\n", work.name.c_str());
    RunOnce(run, work, run.strategies.front());
  }
  // In turns, so that a change of the machine's speed meets all strategies.
  std::vector<std::vector<Outcome>> runs(run.strategies.size());
  for (int i = 0; i < std::max(1, run.repeat); ++i) {
    const Outcome* first = nullptr;
    for (size_t s = 0; s < run.strategies.size(); ++s) {
      runs[s].push_back(RunOnce(run, work, run.strategies[s]));
      if (ComparisonOnly(run.strategies[s]) || !result.compared) continue;
      if (first == nullptr) first = &runs[s].back();
      RequireSameAnswers(work, *first, runs[s].back());
    }
  }
  for (std::vector<Outcome>& of_strategy : runs) {
    Outcome median = TakeMedian(of_strategy);
    const std::string line = fmt::format("{}: {}: {} streams in {:.3f} s, {:.1f} questions/s",
                                         work.name, StrategyName(median.strategy), median.streams(),
                                         median.seconds, median.questions_per_second());
    if (!run.quiet) std::fprintf(stderr, "%s\n", line.c_str());
    result.outcomes.push_back(std::move(median));
  }
  return result;
}

void BenchModel::AddTo(CLI::App& command) {
  run.comparisons = true;
  run.AddTo(command, "mixed");
  std::string shapes;
  for (const std::string& name : Model::ModelShapes()) {
    shapes += (shapes.empty() ? "" : ", ") + name;
  }
  command.add_option("--shape", shape, "Random weights at this shape: " + shapes);
  command.add_flag("--random", random, "With --shape, which implies it");
  command.add_option(
      "--weights", weights,
      "Type of random weights: bf16 (default on cuda), q8_0 (default elsewhere), q4_0, mxfp4, f32");
  command.add_option("--strategies", strategies, "Comma-separated")->capture_default_str();
  if (flat_tokens < 0) {
    command
        .add_option("--flat-tokens", flat_tokens,
                    "flat runs only the first streams, of about so many prompt tokens together; 0: "
                    "all (default: 60000 on cuda, 2000 elsewhere)")
        ->check(CLI::NonNegativeNumber);
  }
  command
      .add_option("--repeat", repeat,
                  "Runs of each strategy, in turns; the median counts, with its spread")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_flag("--cold", cold,
                   "No untimed run first (on cuda it chooses the algorithms of the products)");
  command.add_option("--json", json, "Also write the figures to this file; -: to stdout instead");
}

BenchRun BenchModel::Prepare() {
  const bool on_device = run.load.device == "cuda";
  BenchRun prepared;
  prepared.strategies = ParseStrategies(strategies);
  ChooseShape();
  run.Resolve();
  prepared.engine = run.engine;
  prepared.flat_tokens = flat_tokens >= 0 ? flat_tokens
                         : on_device      ? kFlatTokensOnDevice
                                          : kFlatTokensOnCpu;
  prepared.repeat = repeat;
  prepared.warm_up = on_device && !cold;
  prepared.model = Load();
  return prepared;
}

void BenchModel::ChooseShape() {
  if (run.load.model.empty() && shape.empty()) shape = default_shape;
  if (run.load.model.empty() == shape.empty()) {
    throw Error(ErrorKind::kUsage, "bench: expected either -m MODEL or --shape NAME");
  }
  if (random && shape.empty()) {
    throw Error(ErrorKind::kUsage, "--random: expected --shape NAME as well");
  }
}

std::shared_ptr<Model> BenchModel::Load() {
  KeptModel* const keeper = KeptModel::current;
  if (keeper != nullptr && keeper->model_ != nullptr && keeper->kind_ == Kind()) {
    return keeper->model_;
  }
  if (keeper != nullptr) keeper->model_.reset();  // two of them may not fit
  const std::string by_default = run.load.device == "cuda" ? "bf16" : "q8_0";
  std::shared_ptr<Model> model =
      shape.empty() ? run.LoadModel(false)
                    : Model::Random(shape, weights.empty() ? by_default : weights, run.load);
  if (keeper != nullptr) {
    keeper->model_ = model;
    keeper->kind_ = Kind();
  }
  return model;
}

std::string BenchModel::Kind() const {
  const LoadOptions& load = run.load;
  std::string text = fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", shape, weights, load.model,
                                 load.device, load.precision, load.kv_type, load.threads, load.fast,
                                 load.weights, load.adapter, load.yarn_factor);
  for (const LoadOptions::NamedAdapter& named : load.adapters) {
    text += fmt::format("|{}={}", named.name, named.directory);
  }
  return text;
}

std::vector<Strategy> ParseStrategies(const std::string& names) {
  std::vector<Strategy> strategies;
  size_t begin = 0;
  while (begin <= names.size()) {
    const size_t end = std::min(names.find(',', begin), names.size());
    strategies.push_back(ParseStrategy(names.substr(begin, end - begin)));
    begin = end + 1;
  }
  return strategies;
}

}  // namespace banyan::app
