#include "kernels/shards/sharded_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tensor/quantization.h"

namespace banyan {
namespace {

// Rows of the stacked parts, as tensors that view them.
std::vector<HostTensor> RowsOf(std::span<const HostTensor* const> parts,
                               std::span<const RowPiece> pieces) {
  std::vector<HostTensor> views;
  for (const RowPiece& piece : pieces) {
    std::int64_t part_begin = 0;
    for (const HostTensor* part : parts) {
      const std::int64_t begin = std::max(piece.row, part_begin);
      const std::int64_t end = std::min(piece.row + piece.count, part_begin + part->rows());
      if (begin < end) {
        const size_t row_bytes = RowBytes(part->dtype, part->columns());
        const auto skipped = static_cast<size_t>(begin - part_begin) * row_bytes;
        const auto size = static_cast<size_t>(end - begin) * row_bytes;
        views.push_back({part->name,
                         part->dtype,
                         {end - begin, part->columns()},
                         part->bytes.subspan(skipped, size)});
      }
      part_begin += part->rows();
    }
  }
  return views;
}

}  // namespace

ShardedKernels::ShardedKernels(std::vector<std::unique_ptr<Kernels>> shards)
    : shards_(std::move(shards)), options_(first().options()), rooms_(shards_.size()) {
  BANYAN_CHECK(count() >= 2);
  options_.shards = static_cast<int>(count());
  for (size_t s = 0; s < count(); ++s) {
    apart_ |= shards_[s]->options().ordinal != first().options().ordinal;
    for (size_t other = 0; other < count(); ++other) {
      if (other != s) shard(s).Reach(*shards_[other]);
    }
  }
}

// A room is freed when no other shard reads it any more.
ShardedKernels::~ShardedKernels() {
  try {
    Meet();
  } catch (const Error&) {  // the device has failed: nothing reads any more
  }
}

std::string ShardedKernels::name() const {
  return fmt::format("{} in {} shards", first().name(), count());
}

GroupJoining ShardedKernels::JoiningFor(const AttentionShape& shape) const {
  return first().JoiningFor(shape);
}

// --- Memory --------------------------------------------------------------------------------------

Tensor ShardedKernels::NewTensor(std::int64_t rows, std::int64_t columns) {
  auto all = std::make_shared<ShardedActivations>();
  most_rows_ = std::max(most_rows_, rows);
  for (size_t s = 0; s < count(); ++s) all->of_shard.push_back(shard(s).NewTensor(rows, columns));
  return {std::move(all), rows, columns};
}

std::vector<std::vector<Tensor>> ShardedKernels::NewTensorGroups(
    std::span<const TensorGroup> groups) {
  std::vector<std::vector<std::vector<Tensor>>> of_shard;
  for (size_t s = 0; s < count(); ++s) of_shard.push_back(shard(s).NewTensorGroups(groups));
  std::vector<std::vector<Tensor>> made;
  for (size_t g = 0; g < groups.size(); ++g) {
    std::vector<Tensor>& tensors = made.emplace_back();
    for (size_t t = 0; t < groups[g].size(); ++t) {
      auto all = std::make_shared<ShardedActivations>();
      for (const auto& theirs : of_shard) all->of_shard.push_back(theirs[g][t]);
      tensors.push_back({std::move(all), groups[g][t].rows, groups[g][t].columns});
    }
  }
  return made;
}

Tensor ShardedKernels::RoomOf(size_t s, Room room, std::int64_t rows, std::int64_t columns) {
  Tensor& memory = rooms_[s][room];
  if (memory.rows < rows || memory.columns < columns) {
    // As large as they will be, or twice as large: recorded steps are lost when one moves.
    std::int64_t least = 0;
    if (asynchronous()) {
      const bool wide = room == kWidePart || room == kOtherWidePart;  // of few rows
      least = wide ? std::min(2 * memory.rows, most_rows_) : most_rows_;
    }
    const std::int64_t needed = std::max(memory.rows, rows);
    const std::int64_t most = std::max(memory.columns, columns);
    const Tensor larger = [&] {
      try {
        return shard(s).NewTensor(std::max(needed, least), most);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kLimit || least <= needed) throw;
        return shard(s).NewTensor(needed, most);
      }
    }();
    Meet();  // others may still read what was there
    memory = larger;
    ++grown_;
  }
  return memory.Narrow(rows, columns);
}

Tensor ShardedKernels::PartOf(size_t s, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kWide = 32768;
  const bool wide = columns * static_cast<std::int64_t>(count()) > kWide;
  const Room room = other_turn_ ? (wide ? kOtherWidePart : kOtherPart) : (wide ? kWidePart : kPart);
  return RoomOf(s, room, rows, columns);
}

void ShardedKernels::ExpectWeights(std::int64_t weights) {
  const auto shards = static_cast<std::int64_t>(count());
  for (size_t s = 0; s < count(); ++s) shard(s).ExpectWeights(apart_ ? weights / shards : weights);
}

std::shared_ptr<const Matrix> ShardedKernels::LoadMatrix(std::span<const HostTensor* const> parts,
                                                         std::span<const std::int32_t> row_order) {
  auto matrix = std::make_shared<ShardedMatrix>();
  for (size_t s = 0; s < count(); ++s) {
    matrix->of_shard.push_back(shard(s).LoadMatrix(parts, row_order));
    matrix->bytes += matrix->of_shard.back()->bytes;
  }
  matrix->rows = matrix->of_shard.front()->rows;
  matrix->columns = matrix->of_shard.front()->columns;
  return matrix;
}

std::shared_ptr<const Matrix> ShardedKernels::LoadDivided(std::span<const HostTensor* const> parts,
                                                          std::span<const std::int32_t> row_order,
                                                          std::span<const std::int64_t> blocks) {
  std::int64_t rows = static_cast<std::int64_t>(row_order.size());
  if (row_order.empty()) {
    for (const HostTensor* part : parts) rows += part->rows();
  }
  const std::int64_t one_block[] = {rows};
  if (blocks.empty()) blocks = one_block;
  auto matrix = std::make_shared<ShardedMatrix>();
  matrix->rows = rows;
  matrix->columns = parts.front()->columns();
  matrix->pieces = DivideRows(blocks, static_cast<int>(count()));
  matrix->in_halves = blocks.size() == 2 && blocks[0] == blocks[1];
  for (size_t s = 0; s < count(); ++s) {
    std::shared_ptr<const Matrix>& own = matrix->of_shard.emplace_back();
    const std::vector<RowPiece>& pieces = matrix->pieces[s];
    if (pieces.empty()) continue;
    if (row_order.empty()) {
      const std::vector<HostTensor> views = RowsOf(parts, pieces);
      std::vector<const HostTensor*> pointers;
      for (const HostTensor& view : views) pointers.push_back(&view);
      own = shard(s).LoadMatrix(pointers, {});
    } else {
      std::vector<std::int32_t> order;
      for (const RowPiece& piece : pieces) {
        const auto begin = row_order.begin() + piece.row;
        order.insert(order.end(), begin, begin + piece.count);
      }
      own = shard(s).LoadMatrix(parts, order);
    }
    matrix->bytes += own->bytes;
  }
  return matrix;
}

std::shared_ptr<const Matrix> ShardedKernels::LoadTable(std::span<const HostTensor* const> parts) {
  return LoadDivided(parts, {}, {});
}

std::shared_ptr<const Matrix> ShardedKernels::ForProducts(std::shared_ptr<const Matrix> matrix) {
  auto made = std::make_shared<ShardedMatrix>(AsSharded(*matrix));
  made->bytes = 0;
  for (size_t s = 0; s < count(); ++s) {
    std::shared_ptr<const Matrix>& own = made->of_shard[s];
    if (own == nullptr) continue;
    own = shard(s).ForProducts(std::move(own));
    made->bytes += own->bytes;
  }
  return made;
}

std::shared_ptr<const Vector> ShardedKernels::LoadVector(std::span<const float> values) {
  auto vector = std::make_shared<ShardedVector>();
  for (size_t s = 0; s < count(); ++s) vector->of_shard.push_back(shard(s).LoadVector(values));
  vector->values.assign(values.begin(), values.end());
  vector->size = static_cast<std::int64_t>(values.size());
  return vector;
}

std::shared_ptr<const LowRankTable> ShardedKernels::LoadLowRank(const LowRankSource& source) {
  auto table = std::make_shared<ShardedLowRank>();
  DescribeLowRank(source, *table);
  for (size_t s = 0; s < count(); ++s) {
    table->of_shard.push_back(shard(s).LoadLowRank(source));
    table->bytes += table->of_shard.back()->bytes;
  }
  return table;
}

std::shared_ptr<const ExpertTable> ShardedKernels::GatherExperts(std::vector<ExpertWeights> experts,
                                                                 ExpertNumbers numbers) {
  BANYAN_CHECK(!experts.empty());
  auto table = std::make_shared<ShardedExperts>();
  for (size_t s = 0; s < count(); ++s) {
    std::vector<ExpertWeights> own;
    for (const ExpertWeights& expert : experts) {
      const auto bias = [&](const std::shared_ptr<const Vector>& all, const ShardedMatrix& w) {
        return all == nullptr ? nullptr : BiasRef(*all, w, s);
      };
      const ShardedMatrix& gate_up = AsSharded(*expert.gate_up);
      const ShardedMatrix& down = AsSharded(*expert.down);
      own.push_back({gate_up.of_shard[s], bias(expert.gate_up_bias, gate_up), down.of_shard[s],
                     bias(expert.down_bias, down)});
    }
    table->of_shard.push_back(shard(s).GatherExperts(std::move(own), numbers));
  }
  table->experts = std::move(experts);
  table->numbers = std::move(numbers);
  return table;
}

void ShardedKernels::SetRopes(std::span<const RopeTable> ropes) {
  for (size_t s = 0; s < count(); ++s) shard(s).SetRopes(ropes);
}

// --- What every shard computes by itself ---------------------------------------------------------

// Calls operation(kernels, index of the shard, its part of `out`).
template <typename Operation>
void ShardedKernels::OnAll(Tensor& out, const Operation& operation) {
  for (size_t s = 0; s < count(); ++s) {
    Tensor own = OfShard(out, s);
    operation(shard(s), s, own);
  }
}

void ShardedKernels::Embed(const StepInputs& step, const Matrix& table, Tensor& out) {
  const ShardedMatrix& rows = AsSharded(table);
  OnAll(out, [&](Kernels& kernels, size_t s, Tensor& own) {
    const StepInputs& own_step = *AsSharded(step).of_shard[s];
    if (!rows.divided()) return kernels.Embed(own_step, *rows.of_shard[s], own);
    for (size_t of = 0; of < count(); ++of) {
      if (rows.of_shard[of] == nullptr) continue;
      kernels.EmbedRange(own_step, *rows.of_shard[of], rows.pieces[of].front().row, own);
    }
  });
}

void ShardedKernels::RmsNorm(const Tensor& x, const Vector& weight, float eps, Tensor& out) {
  OnAll(out, [&](Kernels& kernels, size_t s, Tensor& own) {
    kernels.RmsNorm(OfShard(x, s), *AsSharded(weight).of_shard[s], eps, own);
  });
}

void ShardedKernels::LayerNorm(const Tensor& x, const Vector& weight, const Vector& bias, float eps,
                               Tensor& out) {
  OnAll(out, [&](Kernels& kernels, size_t s, Tensor& own) {
    kernels.LayerNorm(OfShard(x, s), *AsSharded(weight).of_shard[s], *AsSharded(bias).of_shard[s],
                      eps, own);
  });
}

void ShardedKernels::RmsNormGroups(const Tensor& x, std::int64_t group, const Vector& weight,
                                   float eps, Tensor& out) {
  OnAll(out, [&](Kernels& kernels, size_t s, Tensor& own) {
    kernels.RmsNormGroups(OfShard(x, s), group, *AsSharded(weight).of_shard[s], eps, own);
  });
}

void ShardedKernels::Clear(Tensor& x) {
  OnAll(x, [](Kernels& kernels, size_t, Tensor& own) { kernels.Clear(own); });
}

void ShardedKernels::Add(const Tensor& delta, Tensor& x) {
  OnAll(x, [&](Kernels& kernels, size_t s, Tensor& own) { kernels.Add(OfShard(delta, s), own); });
}

void ShardedKernels::Scale(float factor, Tensor& x) {
  OnAll(x, [&](Kernels& kernels, size_t, Tensor& own) { kernels.Scale(factor, own); });
}

void ShardedKernels::AddLowRank(const LowRankCall& call, const Tensor& x, Tensor& out) {
  const auto& table = static_cast<const ShardedLowRank&>(call.table);
  OnAll(out, [&](Kernels& kernels, size_t s, Tensor& own) {
    const LowRankCall theirs{*AsSharded(call.step).of_shard[s], call.rows, *table.of_shard[s],
                             OfShard(call.scratch, s)};
    kernels.AddLowRank(theirs, OfShard(x, s), own);
  });
}

void ShardedKernels::AdaptedGlu(const Tensor& x, const GatedProduct& product,
                                const LowRankCall& more, Tensor& scratch, Tensor& out) {
  if (!first().ComputesAdaptedApart(product, more)) {
    return Kernels::AdaptedGlu(x, product, more, scratch, out);
  }
  MatMulGlu(x, product, scratch, out);
  MatMul(x, product.w, nullptr, scratch);
  AddLowRank(more, x, scratch);
  const auto& table = static_cast<const ShardedLowRank&>(more.table);
  OnAll(out, [&](Kernels& kernels, size_t s, Tensor& own) {
    const LowRankCall theirs{*AsSharded(more.step).of_shard[s], more.rows, *table.of_shard[s],
                             OfShard(more.scratch, s)};
    kernels.AdaptedRowsGlu(product.gate, theirs, OfShard(scratch, s), own);
  });
}

void ShardedKernels::MixExperts(const Tensor& x, const ExpertCall& call, Tensor& out) {
  const auto& table = static_cast<const ShardedExperts&>(call.table);
  if (AsSharded(*table.experts.front().gate_up).divided()) return MixDivided(x, call, out);
  OnAll(out, [&](Kernels& kernels, size_t s, Tensor& own) {
    const ExpertScratch& all = call.scratch;
    const ExpertScratch scratch{OfShard(all.input, s), OfShard(all.gate_up, s),
                                OfShard(all.inner, s), OfShard(all.output, s)};
    const Tensor scores = OfShard(call.scores, s);
    kernels.MixExperts(OfShard(x, s), {*table.of_shard[s], scores, call.rule, scratch}, own);
  });
}

void ShardedKernels::Glu(Gate gate, const Tensor& x, Tensor& out) {
  OnAll(out,
        [&](Kernels& kernels, size_t s, Tensor& own) { kernels.Glu(gate, OfShard(x, s), own); });
}

void ShardedKernels::GateColumns(Gate gate, const Tensor& gates, const Tensor& values,
                                 std::int64_t from, Tensor& out) {
  OnAll(out, [&](Kernels& kernels, size_t s, Tensor& own) {
    kernels.GateColumns(gate, OfShard(gates, s), OfShard(values, s), from, own);
  });
}

void ShardedKernels::GateAndNorm(const GatedNorm& call, Tensor& x) {
  OnAll(x, [&](Kernels& kernels, size_t s, Tensor& own) {
    const Tensor gates = OfShard(call.gates, s);
    const Vector& weight = *AsSharded(call.weight).of_shard[s];
    kernels.GateAndNorm({gates, call.gate, weight, call.group, call.eps, call.norm_first}, own);
  });
}

void ShardedKernels::GateRows(Gate gate, const Tensor& gates, Tensor& x) {
  OnAll(x, [&](Kernels& kernels, size_t s, Tensor& own) {
    kernels.GateRows(gate, OfShard(gates, s), own);
  });
}

void ShardedKernels::Convolve(const StepInputs& step, const ConvolutionCall& call,
                              StateMemory& states, Tensor& out) {
  OnAll(out, [&](Kernels& kernels, size_t s, Tensor& own) {
    const Tensor x = OfShard(call.x, s);
    const Vector* bias = call.bias == nullptr ? nullptr : AsSharded(*call.bias).of_shard[s].get();
    const ConvolutionCall theirs{.shape = call.shape,
                                 .layer = call.layer,
                                 .x = x,
                                 .taps = *AsSharded(call.taps).of_shard[s],
                                 .bias = bias,
                                 .first_column = call.first_column,
                                 .gate_in = call.gate_in,
                                 .gate_out = call.gate_out,
                                 .silu = call.silu};
    kernels.Convolve(*AsSharded(step).of_shard[s], theirs, *AsSharded(states).of_shard[s], own);
  });
}

void ShardedKernels::Scan(const StepInputs& step, const ScanCall& call, StateMemory& states,
                          Tensor& out) {
  OnAll(out, [&](Kernels& kernels, size_t s, Tensor& own) {
    const Tensor mixed = OfShard(call.mixed, s), inputs = OfShard(call.inputs, s);
    const Vector* skip = call.skip == nullptr ? nullptr : AsSharded(*call.skip).of_shard[s].get();
    const ScanCall theirs{.shape = call.shape,
                          .layer = call.layer,
                          .mixed = mixed,
                          .inputs = inputs,
                          .step_column = call.step_column,
                          .strength_column = call.strength_column,
                          .rates = *AsSharded(call.rates).of_shard[s],
                          .step_bias = *AsSharded(call.step_bias).of_shard[s],
                          .skip = skip,
                          .least_step = call.least_step,
                          .most_step = call.most_step};
    kernels.Scan(*AsSharded(step).of_shard[s], theirs, *AsSharded(states).of_shard[s], own);
  });
}

void ShardedKernels::Activate(Activation f, Tensor& x) {
  OnAll(x, [&](Kernels& kernels, size_t, Tensor& own) { kernels.Activate(f, own); });
}

void ShardedKernels::GatherLogitRows(const StepInputs& step, const Tensor& x, Tensor& out) {
  OnAll(out, [&](Kernels& kernels, size_t s, Tensor& own) {
    kernels.GatherLogitRows(*AsSharded(step).of_shard[s], OfShard(x, s), own);
  });
}

void ShardedKernels::CopyColumns(const Tensor& x, const ColumnCopy& columns, Tensor& out) {
  OnAll(out, [&](Kernels& kernels, size_t s, Tensor& own) {
    kernels.CopyColumns(OfShard(x, s), columns, own);
  });
}

// --- From logits to tokens -----------------------------------------------------------------------

void ShardedKernels::Choose(const Tensor& logits, std::span<const SamplingRow> requests,
                            const StepPanels& panels, std::unique_ptr<PendingChoices>& choices) {
  if (choices == nullptr) choices = std::make_unique<ShardedChoices>();
  auto& all = static_cast<ShardedChoices&>(*choices);
  all.of_shard.resize(count());
  for (size_t s = 0; s < count(); ++s) {
    StepPanels own = panels;
    if (panels.earlier != nullptr) own.earlier = AsSharded(panels.earlier)->of_shard[s].get();
    shard(s).Choose(OfShard(logits, s), requests, own, all.of_shard[s]);
  }
}

void ShardedKernels::MatMulChoose(const Tensor& x, const Matrix& matrix, Tensor& logits,
                                  std::span<const SamplingRow> requests,
                                  std::unique_ptr<PendingChoices>& choices) {
  const ShardedMatrix& w = AsSharded(matrix);
  if (w.divided()) return Kernels::MatMulChoose(x, matrix, logits, requests, choices);
  if (choices == nullptr) choices = std::make_unique<ShardedChoices>();
  auto& all = static_cast<ShardedChoices&>(*choices);
  all.of_shard.resize(count());
  for (size_t s = 0; s < count(); ++s) {
    Tensor own = OfShard(logits, s);
    shard(s).MatMulChoose(OfShard(x, s), *w.of_shard[s], own, requests, all.of_shard[s]);
  }
}

void ShardedKernels::SelectTokens(const Tensor& logits, std::span<const SamplingRow> requests,
                                  std::span<TokenChoice> choices) {
  shard(0).SelectTokens(OfShard(logits, 0), requests, choices);
}

void ShardedKernels::Download(const Tensor& x, std::int64_t row, std::span<float> out) {
  shard(0).Download(OfShard(x, 0), row, out);
}

}  // namespace banyan
