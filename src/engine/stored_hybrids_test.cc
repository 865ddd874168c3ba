// Models whose layers keep states, with weights as quantisers store them: every type gives the bits
// of its values, weights stay as they are stored, and answers in company have the bits that they
// have alone.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "load/model_parts.h"
#include "support/stored_hybrids.h"
#include "support/temp_directory.h"
#include "support/workload.h"

namespace banyan {
namespace {

using testing_support::AnswersByTag;
using testing_support::ExpectSameAnswers;
using testing_support::GgufType;
using testing_support::GgufTypes;
using testing_support::RunAll;
using testing_support::StoredHybrid;
using testing_support::StoredMix;
using testing_support::TightMemory;
using testing_support::Workload;

class StoredHybrids : public ::testing::Test {
 protected:
  std::string Path(const char* name) const { return (directory_.path() / name).string(); }

  static std::shared_ptr<Model> Load(const std::string& file, const char* precision,
                                     const char* device = "cpu", int threads = 1) {
    LoadOptions options;
    options.model = file;
    options.device = device;
    options.precision = precision;
    options.threads = threads;
    return Model::Load(options);
  }

  // Two questions on one text, with the logits after each.
  static PromptSegment Forest() {
    const auto text = [](int tokens, int first) {
      PromptSegment segment;
      for (int i = 0; i < tokens; ++i) segment.tokens.push_back((first + 7 * i) % 190);
      return segment;
    };
    PromptSegment root = text(40, 3);
    for (std::uint64_t tag = 0; tag < 2; ++tag) {
      PromptSegment& question = root.below.emplace_back(text(9, 50 * static_cast<int>(tag)));
      AnswerRequest& answer = question.answers.emplace_back();
      answer.tag = tag;
      answer.max_new = 4;
      answer.want_logits = true;
    }
    return root;
  }

  static AnswersByTag AnswersOf(const std::shared_ptr<Model>& model, bool alone = false) {
    EngineOptions options;
    options.kv_memory = 8 << 20;
    options.one_by_one = alone;
    if (alone) options.strategy = Strategy::kFlat;
    Engine engine(model, options);
    return RunAll(engine, {Forest()});
  }

  // The largest difference of logits, as a part of their range.
  static double Apart(const AnswersByTag& found, const AnswersByTag& expected) {
    double most = 0.0;
    for (const auto& [tag, answer] : expected) {
      const std::vector<float>& a = found.at(tag).prompt_logits;
      const std::vector<float>& b = answer.prompt_logits;
      EXPECT_EQ(a.size(), b.size());
      const auto [low, high] = std::ranges::minmax(b);
      for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
        most = std::max(most, std::abs(double{a[i]} - b[i]) / (double{high} - low));
      }
    }
    return most;
  }

  const testing_support::TempDirectory directory_;
};

TEST_F(StoredHybrids, EveryTypeGivesTheBitsOfItsValues) {
  size_t next = 0;
  for (const GgufType& type : GgufTypes()) {
    const auto& architectures = StoredHybrid::Architectures();
    const std::string architecture = architectures[next++ % architectures.size()];
    SCOPED_TRACE(fmt::format("{} in {}", architecture, TraitsOf(type.type).name));
    const StoredHybrid hybrid(architecture, {type.type, type.type});
    hybrid.Write(Path("stored.gguf"));
    hybrid.Write(Path("values.gguf"), /*values=*/true);
    const auto values = Load(Path("values.gguf"), "f32");
    const AnswersByTag expected = AnswersOf(values);
    ExpectSameAnswers(expected, AnswersOf(Load(Path("stored.gguf"), "f32")));
    const auto stored = Load(Path("stored.gguf"), "mixed");
    const AnswersByTag mixed = AnswersOf(stored, /*alone=*/true);
    ExpectSameAnswers(mixed, AnswersOf(stored));
    // Experts that are nearly equal may be chosen otherwise.
    if (values->parts().config.experts.count == 0) {
      EXPECT_LT(Apart(mixed, expected), 0.2);
    }
    const double part = static_cast<double>(stored->parts().weights.bytes) /
                        static_cast<double>(values->parts().weights.bytes);
    EXPECT_LT(part, type.type == DType::kF32 ? 1.01 : 0.55) << "unpacked";
    if (HasFailure()) return;
  }
}

// What `llama-quantize` makes of a model: a type for most matrices, a larger one for some, other
// types where rows are no whole blocks, float32 for the rest.
TEST_F(StoredHybrids, MixedTypesAreExactOnRandomForests) {
  static constexpr StoredMix kMixes[] = {
      {DType::kQ4_K, DType::kQ6_K}, {DType::kQ5_K, DType::kQ8_0}, {DType::kQ6_K, DType::kBF16},
      {DType::kQ3_K, DType::kQ5_K}, {DType::kQ2_K, DType::kQ4_K}, {DType::kIQ4_XS, DType::kQ5_K}};
  static constexpr Strategy kStrategies[] = {Strategy::kFlat, Strategy::kPaged, Strategy::kTree,
                                             Strategy::kAuto};
  std::mt19937 random(17);
  size_t next = 0;
  for (const std::string& architecture : StoredHybrid::Architectures()) {
    const StoredMix& mix = kMixes[next++ % std::size(kMixes)];
    const auto seed = static_cast<std::uint32_t>(random());
    SCOPED_TRACE(fmt::format("{}, {} and {}, workload {}", architecture, TraitsOf(mix.usual).name,
                             TraitsOf(mix.better).name, seed));
    const StoredHybrid hybrid(architecture, mix, seed);
    EXPECT_GE(hybrid.Types().size(), 3u);
    hybrid.Write(Path("mixed.gguf"));
    hybrid.Write(Path("values.gguf"), /*values=*/true);
    const AnswersByTag reference = AnswersOf(Load(Path("values.gguf"), "f32", "reference"));
    ExpectSameAnswers(reference, AnswersOf(Load(Path("mixed.gguf"), "f32", "reference")));
    EXPECT_LT(Apart(AnswersOf(Load(Path("mixed.gguf"), "f32")), reference), 1e-4);
    const Workload work(seed, {.roots = 1, .path_tokens = 400, .root_tokens = 500, .max_new = 5});
    const auto model = Load(Path("mixed.gguf"), "mixed");
    EngineOptions alone;
    alone.strategy = Strategy::kFlat;
    alone.one_by_one = true;
    alone.kv_memory = 64 << 20;
    Engine oracle(model, alone);
    const AnswersByTag expected = RunAll(oracle, work.requests());
    for (const Strategy strategy : kStrategies) {
      EngineOptions options;
      options.strategy = strategy;
      options.batch_rows = strategy == Strategy::kTree ? 17 : 512;
      options.kv_memory = TightMemory(*model, work.LargestStreamPages(kPageTokens) + 6);
      Engine engine(model, options);
      ExpectSameAnswers(expected, RunAll(engine, work.requests()));
    }
    EngineOptions plain;
    plain.kv_memory = 64 << 20;
    Engine threaded(Load(Path("mixed.gguf"), "mixed", "cpu", 3), plain);
    ExpectSameAnswers(expected, RunAll(threaded, work.requests()));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace banyan
