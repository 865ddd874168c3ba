// Loading an encoder, and texts through it in passes of whole texts.
#include "banyan/encoder.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/work_budget.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "hub/locate.h"
#include "load/device_list.h"
#include "load/kernel_options.h"
#include "load/model_identity.h"
#include "load/model_parts.h"
#include "model/encoder_config.h"
#include "model/encoder_forward.h"
#include "model/encoder_weights.h"

namespace banyan {
namespace {

constexpr size_t kMaxConfigBytes = 16u << 20;
// Rows whose activations stay in the caches of a processor, and rows that fill a device.
constexpr int kHostRows = 512, kDeviceRows = 16384;

std::string ReadIfThere(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) ? ReadTextFile(path, kMaxConfigBytes) : "";
}

// Who computes the next pass: in the order in which they came, one pass each, so that a long list
// of texts keeps nobody out.
class PassTurns {
 public:
  // Waits for a turn, which lasts as long as the object. Throws WorkStopped when the thread's
  // budget is over before it comes.
  class Turn {
   public:
    explicit Turn(PassTurns& turns) : turns_(turns) {
      std::unique_lock lock(turns_.mutex_);
      place_ = turns_.places_.insert(turns_.places_.end(), this);
      try {
        while (CheckBudget(), turns_.places_.front() != this) {
          turns_.changed_.wait_for(lock, kLookEvery);
        }
      } catch (...) {
        turns_.Leave(place_);
        throw;
      }
    }
    ~Turn() {
      const std::lock_guard lock(turns_.mutex_);
      turns_.Leave(place_);
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    PassTurns& turns_;
    std::list<const Turn*>::iterator place_;
  };

 private:
  static constexpr auto kLookEvery = std::chrono::milliseconds(50);

  void Leave(std::list<const Turn*>::iterator place) {  // REQUIRES: mutex_
    places_.erase(place);
    changed_.notify_all();
  }

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::list<const Turn*> places_;  // the first computes
};

}  // namespace

struct Encoder::Parts {
  EncoderConfig config;
  std::unique_ptr<Kernels> kernels;
  EncoderWeights weights;
  std::shared_ptr<const Text> text;
  std::unique_ptr<EncoderPass> pass;
  std::unique_ptr<EncoderHeads> heads;
  int usual_length = 0;
  PassTurns turns;
  std::string model;  // a path or a name that finds the files
  std::once_flag identified;
  std::string fingerprint;  // once identified

  void LoadGguf(const ModelFiles& files, const LoadProgress& progress);
  void LoadHuggingFace(const ModelFiles& files, const LoadProgress& progress);
  std::vector<TokenId> SpecialIds() const;
  void CheckAll(std::span<const std::vector<TokenId>> texts, const Encoder& encoder) const;
  // visit(texts) for runs of texts of together at most so many rows, or of one, each in a turn of
  // its own. Throws WorkStopped between them when the thread's budget is over.
  void ForEachPass(std::span<const std::vector<TokenId>> texts, int rows,
                   const std::function<void(std::span<const TokenList>)>& visit);
};

void Encoder::Parts::LoadGguf(const ModelFiles& files, const LoadProgress& progress) {
  const GgufFile gguf(files.weights);
  config = EncoderConfigFromGguf(gguf);
  if (gguf.metadata().Has("tokenizer.ggml.tokens")) text = MakeText(Tokenizer::FromGguf(gguf));
  weights = LoadEncoderWeights(config, gguf.tensors(), TensorNaming::kGguf, *kernels, progress);
}

void Encoder::Parts::LoadHuggingFace(const ModelFiles& files, const LoadProgress& progress) {
  config = EncoderConfigFromHuggingFace(ReadTextFile(files.config, kMaxConfigBytes),
                                        ReadIfThere(files.root / "1_Pooling" / "config.json"),
                                        files.root.string());
  if (const std::string modules = ReadIfThere(files.root / "modules.json"); !modules.empty()) {
    CheckSentenceModules(modules, files.root.string());
  }
  const std::string limit = ReadIfThere(files.root / "sentence_bert_config.json");
  if (!limit.empty()) usual_length = ReadTextLimit(limit, files.root.string());
  if (files.tokenizer) text = MakeText(Tokenizer::FromHuggingFace(files.root));
  TensorStore store = OpenSafetensors(files.weights);
  const std::filesystem::path heads_file = files.root / "heads.safetensors";
  std::error_code ignored;
  if (std::filesystem::is_regular_file(heads_file, ignored)) {
    store.Absorb(OpenSafetensors(heads_file));
  }
  weights = LoadEncoderWeights(config, store, TensorNaming::kHuggingFace, *kernels, progress);
}

// Those of the configuration, and those of the tokenizer.
std::vector<TokenId> Encoder::Parts::SpecialIds() const {
  std::vector<TokenId> ids = config.special_ids;
  const int known = text ? std::min(text->vocab_size(), config.vocab_size) : 0;
  for (TokenId id = 0; id < known; ++id) {
    if (text->IsSpecial(id)) ids.push_back(id);
  }
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

void Encoder::Parts::CheckAll(std::span<const std::vector<TokenId>> texts,
                              const Encoder& encoder) const {
  for (size_t i = 0; i < texts.size(); ++i) {
    try {
      encoder.Check(texts[i]);
    } catch (const Error& e) {
      Throw(e.kind(), "text {}: {}", i, e.what());
    }
  }
}

void Encoder::Parts::ForEachPass(std::span<const std::vector<TokenId>> texts, int rows,
                                 const std::function<void(std::span<const TokenList>)>& visit) {
  const int usual = kernels->asynchronous() ? kDeviceRows : kHostRows;
  const auto most = static_cast<size_t>(rows > 0 ? rows : usual);
  std::vector<TokenList> together;
  size_t sum = 0;
  const auto compute = [&] {
    const PassTurns::Turn turn(turns);
    kernels->EnterThread();
    visit(together);
  };
  for (const std::vector<TokenId>& next : texts) {
    if (!together.empty() && sum + next.size() > most) {
      compute();
      together.clear();
      sum = 0;
    }
    together.push_back(next);
    sum += next.size();
  }
  if (!together.empty()) compute();
}

Encoder::Encoder(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Encoder::~Encoder() = default;

bool Encoder::IsEncoder(const std::string& model) {
  const ModelFiles files = LocateModel(model);
  if (files.kind == ModelKind::kGguf) {
    const GgufFile gguf(files.weights);
    return IsEncoderArchitecture(gguf.metadata().FindString("general.architecture").value_or(""));
  }
  const Json config = ParseJson(ReadTextFile(files.config, kMaxConfigBytes), files.config.string());
  const auto type = config.is_object() ? config.find("model_type") : config.end();
  return type != config.end() && type->is_string() && IsEncoderFamily(type->get<std::string>());
}

std::shared_ptr<Encoder> Encoder::Load(const LoadOptions& options) {
  if (!options.adapter.empty() || !options.adapters.empty()) {
    Throw(ErrorKind::kUnsupported, "--adapter: encoders take no adapters");
  }
  auto parts = std::make_unique<Parts>();
  KernelOptions kernel_options = KernelOptionsOf(options);
  // Keys and values live for one layer: there is nothing to save by keeping fewer of their bits.
  kernel_options.kv_type = KvType::kF32;
  const DeviceName device = ParseDevices(options.device).front();  // one, where there are several
  kernel_options.ordinal = device.ordinal;
  parts->kernels = MakeKernels(device.backend, kernel_options);
  std::error_code ignored;
  parts->model = std::filesystem::exists(options.model, ignored)
                     ? std::filesystem::absolute(options.model).string()
                     : options.model;
  const ModelFiles files = LocateModel(options.model);
  if (files.kind == ModelKind::kGguf) {
    parts->LoadGguf(files, options.progress);
  } else {
    parts->LoadHuggingFace(files, options.progress);
  }
  parts->pass = std::make_unique<EncoderPass>(parts->config, parts->weights, *parts->kernels);
  parts->heads = std::make_unique<EncoderHeads>(parts->config, parts->weights, *parts->kernels,
                                                parts->SpecialIds());
  return std::shared_ptr<Encoder>(new Encoder(std::move(parts)));
}

bool Encoder::embeds() const { return !parts_->config.reranks; }
bool Encoder::has_sparse() const { return parts_->weights.sparse.matrix != nullptr; }
bool Encoder::has_colbert() const { return parts_->weights.colbert.matrix != nullptr; }
bool Encoder::reranks() const { return parts_->config.reranks; }
int Encoder::dimensions() const { return parts_->config.hidden_size; }
int Encoder::context_length() const { return parts_->config.context_length(); }
int Encoder::usual_length() const {
  const int usual = parts_->usual_length;
  return usual > 0 ? std::min(usual, context_length()) : context_length();
}
int Encoder::vocab_size() const { return parts_->config.vocab_size; }
std::shared_ptr<const Text> Encoder::text() const { return parts_->text; }
std::string Encoder::backend_name() const { return parts_->kernels->name(); }

const std::string& Encoder::fingerprint() const {
  std::call_once(parts_->identified,
                 [this] { parts_->fingerprint = EncoderFingerprint(parts_->model); });
  return parts_->fingerprint;
}

void Encoder::Check(std::span<const TokenId> text) const {
  if (text.empty()) Throw(ErrorKind::kInput, "the text is empty: expected at least one token");
  if (text.size() > static_cast<size_t>(context_length())) {
    Throw(ErrorKind::kLimit, "{} tokens are more than the model's context of {}", text.size(),
          context_length());
  }
  for (const TokenId id : text) {
    if (id < 0 || id >= vocab_size()) {
      Throw(ErrorKind::kInput, "token id {} is not in the vocabulary of {} tokens", id,
            vocab_size());
    }
  }
}

std::vector<Embedding> Encoder::Embed(std::span<const std::vector<TokenId>> texts,
                                      const EmbedOptions& options) {
  if (!embeds()) {
    Throw(ErrorKind::kUnsupported, "the model is a reranker: it gives a logit, no vectors");
  }
  parts_->CheckAll(texts, *this);
  std::vector<Embedding> results;
  parts_->ForEachPass(texts, options.batch_rows, [&](std::span<const TokenList> some) {
    const Tensor rows = parts_->pass->Run(some, parts_->heads->RowsFor(options));
    std::ranges::move(parts_->heads->Embed(rows, some, options), std::back_inserter(results));
  });
  return results;
}

std::vector<float> Encoder::Rerank(std::span<const std::vector<TokenId>> texts, int batch_rows) {
  if (!reranks()) {
    Throw(ErrorKind::kUnsupported, "the model is no reranker: it gives vectors, no logit");
  }
  parts_->CheckAll(texts, *this);
  std::vector<float> results;
  parts_->ForEachPass(texts, batch_rows, [&](std::span<const TokenList> some) {
    const std::vector<float> logits =
        parts_->heads->Rerank(parts_->pass->Run(some, WantedRows::kFirst));
    results.insert(results.end(), logits.begin(), logits.end());
  });
  return results;
}

std::vector<TokenId> EncoderTokens(const Encoder& encoder, std::string_view text, int most,
                                   bool* truncated) {
  const std::shared_ptr<const Text> side = encoder.text();
  if (side == nullptr) {
    Throw(ErrorKind::kUnsupported, "the encoder's files have no tokenizer");
  }
  const int limit = most > 0 ? std::min(most, encoder.context_length()) : encoder.usual_length();
  std::vector<TokenId> tokens = side->Encode(text, /*add_special=*/true, /*parse_special=*/false);
  const bool too_long = tokens.size() > static_cast<size_t>(limit);
  if (truncated != nullptr) *truncated = too_long;
  if (!too_long) return tokens;
  const TokenId last = tokens.back();
  tokens.resize(static_cast<size_t>(limit));
  if (side->IsSpecial(last)) tokens.back() = last;
  return tokens;
}

// <s> query </s></s> document </s>, as RoBERTa and XLM-R join two texts.
std::vector<TokenId> RerankerTokens(const Encoder& reranker, std::string_view query,
                                    std::string_view document) {
  std::vector<TokenId> pair = EncoderTokens(reranker, query, reranker.context_length());
  const int room = reranker.usual_length() - static_cast<int>(pair.size());
  constexpr int kLeastRoom = 3;  // two special tokens and one of the document's
  if (room < kLeastRoom || pair.size() < 2) {
    Throw(ErrorKind::kLimit,
          "the question's {} tokens leave no room for a document in the reranker's {}", pair.size(),
          reranker.usual_length());
  }
  std::vector<TokenId> rest = EncoderTokens(reranker, document, room);
  const std::shared_ptr<const Text> side = reranker.text();
  if (!side->IsSpecial(pair.back()) || !side->IsSpecial(rest.front())) {
    Throw(ErrorKind::kUnsupported,
          "the reranker's tokenizer puts no separators around a text: expected one of RoBERTa's "
          "or XLM-R's");
  }
  rest.front() = pair.back();
  pair.insert(pair.end(), rest.begin(), rest.end());
  return pair;
}

std::string EncoderFingerprint(const std::string& model) {
  constexpr size_t kMaxBytes = 16u << 20;
  const ModelFiles files = LocateModel(model);
  const LoadOptions options;
  const std::vector<TokenId> none;
  Json identity;
  if (files.kind == ModelKind::kGguf) {
    const GgufFile gguf(files.weights);
    identity = IdentityOf({files, &gguf, gguf.tensors(), nullptr, nullptr, none}, options, {});
  } else {
    TensorStore store = OpenSafetensors(files.weights);
    std::error_code ignored;
    const std::filesystem::path heads = files.root / "heads.safetensors";
    if (std::filesystem::is_regular_file(heads, ignored)) store.Absorb(OpenSafetensors(heads));
    identity = IdentityOf({files, nullptr, store, nullptr, nullptr, none}, options, {});
    for (const char* name : {"1_Pooling/config.json", "sentence_bert_config.json"}) {
      const std::filesystem::path path = files.root / name;
      if (std::filesystem::is_regular_file(path, ignored)) {
        identity[name] = ReadTextFile(path, kMaxBytes);
      }
    }
  }
  for (const char* how : {"device", "precision", "kv type", "fast", "yarn factor"}) {
    identity.erase(how);
  }
  const std::string text = identity.dump(-1, ' ', false, Json::error_handler_t::replace);
  return ToHex(Sha256().Add(text).Finish());
}

}  // namespace banyan
