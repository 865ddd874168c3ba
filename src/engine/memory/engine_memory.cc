#include "engine/memory/engine_memory.h"

#include <algorithm>

#include "base/error.h"
#include "base/machine_limits.h"
#include "model/forward.h"

namespace banyan {
namespace {

struct Defaults {
  int batch_rows, max_streams;
};
// A CPU gains nothing from more rows. On a device 1024 rows come close to the full rate of the
// products and 2048 halve what a step costs beside them; streams that write long answers must be
// able to fill such a step. 4096 rows gain another percent where memory is plentiful.
constexpr Defaults kHostDefaults{512, 256};
constexpr Defaults kDeviceDefaults{2048, 1024};
constexpr int kRowsOfRoomyDevice = 4096;
constexpr std::int64_t kRoomyPart = 16;  // of the free memory, which such steps may take

constexpr int kMostTimesDefault = 4;     // rows of a step by default, where many streams are wanted
constexpr int kPanelStreams = 129;       // branches that a stream may always have
constexpr int kLeastBatchRows = 32;      // steps are not made smaller for want of memory
constexpr int kMostPartialPages = 1024;  // of one stream's path
constexpr int kFewestPages = 256;        // KV memory is not made smaller for want of memory

std::int64_t QuarterOfMemory() { return UsableMemory() / 4; }

// Of a row of codes with its scale, as devices keep them.
std::int64_t BytesOfCodes(std::int64_t columns) { return (columns + 127) / 128 * 128 + 4; }

// Device memory that a row of a step takes beside the activations made at the start: their 16-bit
// forms, the codes that 8-bit products read, partials of attention (more are made when a step needs
// them, or the step is made smaller).
std::int64_t BytesOfRow(const ModelConfig& config, const KernelOptions& options) {
  constexpr std::int64_t kPartialsPerRow = 16;
  const std::int64_t heads = std::int64_t{config.heads} * config.head_dim;
  const std::int64_t kv_heads = std::int64_t{config.kv_heads} * config.head_dim;
  const std::int64_t row = 3 * std::int64_t{config.hidden_size} + 2 * heads + 2 * kv_heads +
                           3 * std::int64_t{config.ffn_size};
  const std::int64_t codes =
      options.eight_bit_products
          ? BytesOfCodes(config.hidden_size) + BytesOfCodes(heads) + BytesOfCodes(config.ffn_size)
          : 0;
  return 2 * row + codes + kPartialsPerRow * (heads + 2 * std::int64_t{config.heads}) * 4;
}

// Of all rows, and results of products while their algorithms are chosen, workspaces of libraries,
// recorded graphs.
std::int64_t BytesBesideActivations(const Model::Parts& model, const EngineMemory& memory) {
  const ModelConfig& config = model.config;
  constexpr std::int64_t kWorkspaces = std::int64_t{1} << 30;
  const std::int64_t logits = std::int64_t{memory.logit_rows} * config.vocab_size * 4;
  // The 16-bit forms of what lies before and between the products of experts, and their codes.
  const std::int64_t slots =
      std::min<std::int64_t>(memory.batch_rows, ExpertStretch(*model.kernels)) *
      config.experts.rule.chosen;
  const std::int64_t inner = config.experts.inner_size;
  const std::int64_t codes = model.kernels->options().eight_bit_products
                                 ? BytesOfCodes(config.hidden_size) + BytesOfCodes(inner)
                                 : 0;
  const std::int64_t experts = inner == 0 ? 0 : slots * (2 * (config.hidden_size + inner) + codes);
  return memory.batch_rows * BytesOfRow(config, model.kernels->options()) + logits + experts +
         kWorkspaces;
}

Defaults DefaultsFor(const Model::Parts& model) {
  if (!model.kernels->asynchronous()) return kHostDefaults;
  Defaults defaults = kDeviceDefaults;
  const std::int64_t free = model.kernels->FreeDeviceMemory().value_or(0);
  if (kRowsOfRoomyDevice * BytesOfRow(model.config, model.kernels->options()) <=
      free / kRoomyPart) {
    defaults.batch_rows = kRowsOfRoomyDevice;
  }
  return defaults;
}

std::int64_t KvBudget(const EngineOptions& options, Model::Parts& model,
                      const EngineMemory& memory) {
  if (options.kv_memory > 0) return options.kv_memory;
  const std::optional<std::int64_t> free = model.kernels->FreeDeviceMemory();
  const DeviceName& device = model.device;
  if (!free) return QuarterOfMemory() / device.sharers;
  model.Rates();  // takes memory for a moment: now, while there is some
  // Shards on one device, and on several of which `free` is the sum, need as much each.
  const int shards = std::max(1, model.kernels->options().shards);
  // Engines that share the device were made before this one, or will be: the steps of the former
  // still take memory, the latter take all of theirs.
  const std::int64_t beside = std::min(shards * BytesBesideActivations(model, memory), *free / 4);
  const std::int64_t left = std::max(*free - device.place * beside, *free / 4);
  const std::int64_t part = left / (device.sharers - device.place);
  return part - std::min(beside, part / 4);
}

// Slots for the states of all branches and of what stands above them, in at most half of the
// budget.
int SlotsForBudget(std::int64_t budget, const ModelConfig& config, int branches) {
  const std::int64_t bytes = StateBytesOf(config);
  if (bytes == 0) return 0;
  constexpr std::int64_t kFewest = 2, kOfBranch = 4, kOfTexts = 256;  // a text and a question
  const std::int64_t slots = std::min(budget / 2 / bytes, kOfBranch * branches + kOfTexts);
  if (slots < kFewest) {
    Throw(ErrorKind::kLimit,
          "--kv-memory: half of {} bytes is for states of {} bytes each: room for {}, expected "
          "for at least {}",
          budget, bytes, slots, kFewest);
  }
  return static_cast<int>(slots);
}

// Pages for the budget, but no more than all branches of running streams could ever fill.
int PagesForBudget(std::int64_t budget, const Model::Parts& model, int branches) {
  const ModelConfig& config = model.config;
  const std::int64_t page_bytes = model.kernels->KvPageBytes(KvShapeOf(config));
  // A page holds keys of one segment, so every segment of a path may leave one partly empty.
  const std::int64_t full_pages = (config.context_length + kPageTokens - 1) / kPageTokens;
  const std::int64_t pages_per_stream =
      std::min<std::int64_t>(config.context_length + 1, full_pages + kMostPartialPages);
  const std::int64_t useful = pages_per_stream * branches;
  constexpr std::int64_t kIndexLimit =
      (std::int64_t{1} << 31) / kPageTokens - 1;  // slots are int32
  const std::int64_t pages = std::min({budget / page_bytes, useful, kIndexLimit});
  if (pages < 2) {
    Throw(ErrorKind::kLimit, "--kv-memory: {} bytes hold {} pages of {} bytes: expected at least 2",
          budget, pages, page_bytes);
  }
  return static_cast<int>(pages);
}

std::shared_ptr<KvMemory> AllocateKv(const EngineOptions& options, Model::Parts& model,
                                     const EngineMemory& memory) {
  const ModelConfig& config = model.config;
  const KvShape shape = KvShapeOf(config);
  const std::int64_t budget = KvBudget(options, model, memory);
  const int slots = SlotsForBudget(budget, config, memory.logit_rows);
  int pages = PagesForBudget(budget - slots * StateBytesOf(config), model, memory.logit_rows);
  for (;;) {
    try {
      std::shared_ptr<KvMemory> kv = model.kernels->NewKvMemory(shape, pages);
      if (slots > 0) {
        const int layers = StateLayersBefore(config, config.layers);
        kv->states = model.kernels->NewStateMemory(config.states.shape, layers, slots);
      }
      return kv;
    } catch (const Error& error) {
      const int fewer = pages / 4 * 3;
      if (error.kind() != ErrorKind::kLimit || options.kv_memory > 0 || fewer < kFewestPages) throw;
      pages = fewer;
    }
  }
}

}  // namespace

int PieceTokens(const Model::Parts& model) {
  const std::int64_t state = StateBytesOf(model.config);
  if (state == 0) return 0;
  constexpr std::int64_t kStep = 512, kMost = std::int64_t{1} << 20;
  static_assert(kStep % kCutKeys == 0);
  const std::int64_t page = model.kernels->KvPageBytes(KvShapeOf(model.config));
  const std::int64_t tokens = 2 * state * kPageTokens / page;
  return static_cast<int>(std::clamp((tokens + kStep - 1) / kStep * kStep, kStep, kMost));
}

int PieceCuts(const Model::Parts& model) { return PieceTokens(model) / kCutKeys; }

EngineMemory AllocateMemory(const EngineOptions& options, Model::Parts& model) {
  const Defaults defaults = DefaultsFor(model);
  // A wish for many streams is one for their rows, within reason: memory that the host grants may
  // not be there when it is used.
  const int most_by_default = kMostTimesDefault * defaults.batch_rows;
  int rows = options.batch_rows > 0
                 ? options.batch_rows
                 : std::clamp(options.max_streams, defaults.batch_rows, most_by_default);
  for (;;) {
    EngineMemory memory;
    memory.batch_rows = rows;
    memory.max_streams =
        std::min(rows, options.max_streams > 0 ? options.max_streams : defaults.max_streams);
    if (options.one_by_one) memory.max_streams = 1;
    memory.logit_rows = std::max(memory.max_streams, std::min(rows, kPanelStreams));
    try {
      memory.forward = std::make_unique<ForwardPass>(model.config, model.weights, *model.kernels,
                                                     memory.batch_rows, memory.logit_rows);
      memory.kv = AllocateKv(options, model, memory);
      return memory;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kLimit || rows / 2 < kLeastBatchRows) throw;
      rows /= 2;
    }
  }
}

}  // namespace banyan
