// banyan bench extract: documents a second by skeleton, isolated and sequential values, on random
// tokens with values of forced lengths.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>

#include "banyan/error.h"
#include "bench_commands.h"
#include "bench_report.h"
#include "bench_run.h"
#include "program/json_library.h"

namespace banyan::app {
namespace {

enum class Mode { kSkeleton, kStack, kIsolated, kSequential };

struct ExtractBench {
  BenchModel model;
  int documents = 24, attributes = 16;
  std::vector<int> stacks = {6};             // documents of one prompt, each a stacked run
  std::vector<int> batches;                  // prompts that are decoded together; empty: all
  std::vector<int> lengths = {200, 256, 5};  // tokens: instruction, document, piece of the template
  std::vector<int> value_lengths = {1, 12};
  int kmax = 30;
  std::uint64_t seed = 1;
};

// The tokens of a job: those of all modes are the same.
class Tokens {
 public:
  Tokens(const ExtractBench& bench, int vocab_size) : bench_(bench), random_(bench.seed) {
    const auto draw = [&](int count) {
      std::vector<TokenId> tokens;
      for (int i = 0; i < count; ++i) {
        tokens.push_back(static_cast<TokenId>(random_() % static_cast<std::uint64_t>(vocab_size)));
      }
      return tokens;
    };
    instruction_ = draw(bench.lengths[0]);
    for (int n = 0; n < bench.attributes; ++n) pieces_.push_back(draw(bench.lengths[2]));
    const int least = bench.value_lengths[0], most = bench.value_lengths[1];
    for (int d = 0; d < bench.documents; ++d) {
      documents_.push_back(draw(bench.lengths[1]));
      auto& values = values_.emplace_back();
      for (int n = 0; n < bench.attributes; ++n) {
        values.push_back(draw(
            least + static_cast<int>(random_() % static_cast<std::uint64_t>(most - least + 1))));
      }
    }
  }

  std::vector<PromptSegment> Requests(Mode mode, int stack) const {
    std::vector<PromptSegment> requests;
    for (int first = 0; first < bench_.documents; first += stack) {
      const int end = std::min(first + stack, bench_.documents);
      PromptSegment root;
      root.tokens = instruction_;
      PromptSegment& document = root.below.emplace_back();
      for (int d = first; d < end; ++d) {
        const auto& tokens = documents_[static_cast<size_t>(d)];
        document.tokens.insert(document.tokens.end(), tokens.begin(), tokens.end());
      }
      if (mode == Mode::kSequential) {
        AddSequence(first, document);
      } else {
        AddTemplate(mode, first, end, root.tokens.size() + document.tokens.size(), document);
      }
      requests.push_back(std::move(root));
    }
    return requests;
  }

  std::int64_t values() const { return std::int64_t{bench_.documents} * bench_.attributes; }

 private:
  void AddTemplate(Mode mode, int first, int end, size_t position, PromptSegment& above) const {
    PromptSegment* piece = &above;
    for (int d = first; d < end; ++d) {
      for (int n = 0; n < bench_.attributes; ++n) {
        piece = &piece->below.emplace_back();
        piece->tokens = pieces_[static_cast<size_t>(n)];
        piece->first_position = static_cast<std::int32_t>(position);
        piece->skeleton = mode != Mode::kIsolated && d == first && n == 0;
        position += piece->tokens.size() + static_cast<size_t>(bench_.kmax);
        AnswerRequest& value = piece->answers.emplace_back();
        value.tag = static_cast<std::uint64_t>(d * bench_.attributes + n);
        value.forced = values_[static_cast<size_t>(d)][static_cast<size_t>(n)];
      }
    }
  }

  // Template and values as one text.
  void AddSequence(int d, PromptSegment& above) const {
    PromptSegment& piece = above.below.emplace_back();
    piece.tokens = pieces_.front();
    AnswerRequest& answer = piece.answers.emplace_back();
    answer.tag = static_cast<std::uint64_t>(d * bench_.attributes);
    for (size_t n = 0; n < pieces_.size(); ++n) {
      const std::vector<TokenId>& value = values_[static_cast<size_t>(d)][n];
      if (n > 0) answer.forced.insert(answer.forced.end(), pieces_[n].begin(), pieces_[n].end());
      answer.forced.insert(answer.forced.end(), value.begin(), value.end());
    }
  }

  const ExtractBench& bench_;
  std::mt19937_64 random_;
  std::vector<TokenId> instruction_;
  std::vector<std::vector<TokenId>> pieces_, documents_;
  std::vector<std::vector<std::vector<TokenId>>> values_;  // [documents][attributes]
};

// What is timed: `stack` documents in a prompt, `batch` prompts at once (0: all).
struct Cell {
  Mode mode = Mode::kSkeleton;
  int stack = 1, batch = 0;

  const char* name() const {
    static constexpr const char* kNames[] = {"skeleton", "skeleton, stacked", "isolated",
                                             "sequential"};
    return kNames[static_cast<int>(mode)];
  }
  std::string Text() const {
    std::string text = name();
    if (mode == Mode::kStack) text += fmt::format(" by {}", stack);
    return batch == 0 ? text : text + fmt::format(", batch {}", batch);
  }
};

struct CellTime {
  Cell cell;
  double seconds = 0.0;
  Receipt receipt;
  std::vector<Answer> answers;  // by tag
};

// A batch ends before the next begins, as offline decoding of fixed batches does.
CellTime RunCell(const BenchRun& run, const Tokens& tokens, const Cell& cell, Strategy strategy) {
  EngineOptions options = run.engine;
  options.strategy = strategy;
  if (options.mixed_rows == 0) options.mixed_rows = -1;  // only the end counts
  CellTime time;
  time.cell = cell;
  time.answers.resize(static_cast<size_t>(tokens.values()));
  Engine engine(run.model, options);
  const auto take = [&] {
    for (Answer& answer : engine.TakeFinished()) {
      if (answer.finish == FinishReason::kError) throw Error(ErrorKind::kLimit, answer.error);
      time.answers[answer.tag] = std::move(answer);
    }
  };
  std::vector<PromptSegment> requests = tokens.Requests(cell.mode, cell.stack);
  const size_t batch = cell.batch > 0 ? static_cast<size_t>(cell.batch) : requests.size();
  const auto start = std::chrono::steady_clock::now();
  for (size_t first = 0; first < requests.size(); first += batch) {
    const size_t end = std::min(first + batch, requests.size());
    for (size_t i = first; i < end; ++i) engine.Submit(std::move(requests[i]));
    while (engine.Step()) take();
    take();
  }
  time.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  time.receipt = engine.receipt();
  return time;
}

void RequireSame(const CellTime& a, const CellTime& b, Strategy strategy) {
  for (size_t i = 0; i < a.answers.size(); ++i) {
    const std::vector<float>&x = a.answers[i].logprobs, &y = b.answers[i].logprobs;
    if (x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0) {
      continue;
    }
    throw Error(ErrorKind::kInput,
                fmt::format("bench extract: {}: strategy {} gave another value {}: no times are "
                            "printed",
                            a.cell.Text(), StrategyName(strategy), i));
  }
}

std::vector<Cell> CellsOf(const ExtractBench& bench) {
  std::vector<Cell> cells;
  for (const int batch : bench.batches.empty() ? std::vector<int>{0} : bench.batches) {
    cells.push_back({Mode::kSkeleton, 1, batch});
    for (const int stack : bench.stacks) cells.push_back({Mode::kStack, stack, batch});
    cells.push_back({Mode::kIsolated, 1, batch});
    cells.push_back({Mode::kSequential, 1, batch});
  }
  return cells;
}

// The best of all strategies and runs. Throws kInput where two strategies gave different values.
CellTime TimeCell(const BenchRun& run, const Tokens& tokens, const Cell& cell) {
  CellTime best;
  for (const Strategy strategy : run.strategies) {
    for (int i = 0; i < std::max(1, run.repeat); ++i) {
      CellTime time = RunCell(run, tokens, cell, strategy);
      if (!best.answers.empty() && run.model->exact()) RequireSame(best, time, strategy);
      if (best.answers.empty() || time.seconds < best.seconds) best = std::move(time);
    }
  }
  std::fprintf(stderr, "extract: %s: %.3f s\n", cell.Text().c_str(), best.seconds);
  best.answers.clear();
  return best;
}

void PrintCells(const ExtractBench& bench, const Model& model, const std::vector<CellTime>& times,
                nlohmann::ordered_json& json) {
  const bool text = bench.model.json != "-";
  if (text) {
    fmt::print("extract: {} documents x {} attributes | {} tokens, values of {} | {}, {}\n\n",
               bench.documents, bench.attributes, fmt::join(bench.lengths, ", "),
               fmt::join(bench.value_lengths, " to "), model.backend_name(), model.precision());
    fmt::print("| values | seconds | documents/s | steps | rows computed | of sequential |\n");
    fmt::print("|---|---|---|---|---|---|\n");
  }
  for (const CellTime& time : times) {
    const double rate = bench.documents / time.seconds;
    const std::int64_t rows = time.receipt.prefilled_tokens + time.receipt.decode_rows;
    const auto sequential = std::ranges::find_if(times, [&](const CellTime& other) {
      return other.cell.mode == Mode::kSequential && other.cell.batch == time.cell.batch;
    });
    const double gain = sequential->seconds / time.seconds;
    if (text) {
      fmt::print("| {} | {:.3f} | {:.2f} | {} | {} | {:.2f}x |\n", time.cell.Text(), time.seconds,
                 rate, time.receipt.steps, rows, gain);
    }
    json["modes"].push_back({{"values", time.cell.name()},
                             {"stack", time.cell.stack},
                             {"batch", time.cell.batch},
                             {"seconds", time.seconds},
                             {"documents_per_second", rate},
                             {"steps", time.receipt.steps},
                             {"rows", rows},
                             {"times_sequential", gain}});
  }
}

int RunBench(ExtractBench& bench) {
  if (bench.value_lengths[0] < 1 || bench.value_lengths[1] < bench.value_lengths[0] ||
      bench.value_lengths[1] > bench.kmax) {
    throw Error(ErrorKind::kUsage,
                "--value-lengths: expected LEAST,MOST with 1 <= LEAST <= MOST <= kmax");
  }
  const BenchRun run = bench.model.Prepare();
  const Tokens tokens(bench, run.model->vocab_size());
  if (run.warm_up) RunCell(run, tokens, {}, run.strategies.front());
  std::vector<CellTime> times;
  for (const Cell& cell : CellsOf(bench)) times.push_back(TimeCell(run, tokens, cell));
  nlohmann::ordered_json json = {{"documents", bench.documents},
                                 {"attributes", bench.attributes},
                                 {"stack", bench.stacks},
                                 {"batch", bench.batches},
                                 {"backend", run.model->backend_name()}};
  PrintCells(bench, *run.model, times, json);
  if (!bench.model.json.empty()) WriteJson(bench.model.json, json);
  return 0;
}

}  // namespace

BenchCommand AddBenchExtract(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand(
      "extract", "Attribute values at once and one after another, of forced lengths");
  auto command = std::make_shared<ExtractBench>();
  command->model.strategies = "auto";
  command->model.flat_tokens = 0;
  command->model.AddTo(*app);
  const auto count = [&](const char* name, int& value, const char* help) {
    app->add_option(name, value, help)->check(CLI::PositiveNumber)->capture_default_str();
  };
  count("--documents", command->documents, "How many");
  count("--attributes", command->attributes, "Of every document");
  const auto list = [&](const char* name, std::vector<int>& values, const char* help) {
    app->add_option(name, values, help)->delimiter(',')->check(CLI::PositiveNumber);
  };
  list("--stack", command->stacks, "Documents of one prompt: a stacked run for each (default: 6)");
  list("--batch", command->batches, "Prompts decoded together: all runs for each (default: all)");
  count("--kmax", command->kmax, "Positions that a value may have");
  app->add_option("--lengths", command->lengths, "Tokens of instruction, document, template piece")
      ->delimiter(',')
      ->expected(3)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--value-lengths", command->value_lengths, "Tokens of a value: LEAST,MOST")
      ->delimiter(',')
      ->expected(2)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--seed", command->seed, "Of the tokens")->capture_default_str();
  return {app, [command] { return RunBench(*command); }};
}

}  // namespace banyan::app
