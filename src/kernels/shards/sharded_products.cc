// What shards compute together: products by ranges of outputs, attention by ranges of heads.
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "kernels/shards/sharded_kernels.h"

namespace banyan {
namespace {

QkNormWeights NormOfShard(const QkNormWeights& norm, size_t shard) {
  const auto of = [&](const Vector* vector) {
    return vector == nullptr ? nullptr : AsSharded(*vector).of_shard[shard].get();
  };
  QkNormWeights own = norm;
  own.query = of(norm.query);
  own.key = of(norm.key);
  own.value = of(norm.value);
  return own;
}

}  // namespace

// --- Products: every shard computes a range of the outputs ---------------------------------------

const Vector* ShardedKernels::BiasOf(const Vector* bias, const ShardedMatrix& w, size_t s) {
  return bias == nullptr ? nullptr : BiasRef(*bias, w, s).get();
}

std::shared_ptr<const Vector> ShardedKernels::BiasRef(const Vector& bias, const ShardedMatrix& w,
                                                      size_t s) {
  const ShardedVector& all = AsSharded(bias);
  if (!w.divided()) return all.of_shard[s];
  if (all.parts.empty()) {
    for (size_t each = 0; each < count(); ++each) {
      std::vector<float> values;
      for (const RowPiece& piece : w.pieces[each]) {
        const auto begin = all.values.begin() + piece.row;
        values.insert(values.end(), begin, begin + piece.count);
      }
      all.parts.push_back(shard(each).LoadVector(values));
    }
  }
  return all.parts[s];
}

void ShardedKernels::Share(std::span<const ColumnPiece> pieces, Tensor& out) {
  Meet();
  for (size_t s = 0; s < count(); ++s) {
    Tensor own = OfShard(out, s);
    shard(s).Gather(pieces, own);
  }
  other_turn_ = !other_turn_;
}

void ShardedKernels::MatMul(const Tensor& x, const Matrix& matrix, const Vector* bias,
                            Tensor& out) {
  const ShardedMatrix& w = AsSharded(matrix);
  std::vector<ColumnPiece> pieces;
  for (size_t s = 0; s < count(); ++s) {
    const Matrix* own = w.of_shard[s].get();
    if (own == nullptr) continue;
    const Vector* biases = BiasOf(bias, w, s);
    Tensor part = w.divided() ? PartOf(s, x.rows, own->rows) : OfShard(out, s);
    shard(s).MatMul(OfShard(x, s), *own, biases, part);
    if (!w.divided()) continue;
    for (const RowPiece& piece : w.pieces[s]) {
      pieces.push_back({part, {piece.place, piece.row, piece.count}});
    }
  }
  if (w.divided()) Share(pieces, out);
}

void ShardedKernels::MatMulAdd(const Tensor& a, const Matrix& matrix, const Vector* bias,
                               Tensor& scratch, Tensor& x) {
  const ShardedMatrix& w = AsSharded(matrix);
  if (w.divided()) return Kernels::MatMulAdd(a, matrix, bias, scratch, x);
  for (size_t s = 0; s < count(); ++s) {
    Tensor own = OfShard(x, s), left = OfShard(scratch, s);
    shard(s).MatMulAdd(OfShard(a, s), *w.of_shard[s], BiasOf(bias, w, s), left, own);
  }
}

void ShardedKernels::MatMulGlu(const Tensor& x, const GatedProduct& product, Tensor& scratch,
                               Tensor& out) {
  const ShardedMatrix& w = AsSharded(product.w);
  if (w.divided() && !w.in_halves) return Kernels::MatMulGlu(x, product, scratch, out);
  std::vector<ColumnPiece> pieces;
  for (size_t s = 0; s < count(); ++s) {
    const Matrix* own = w.of_shard[s].get();
    if (own == nullptr) continue;
    const GatedProduct theirs{*own, BiasOf(product.bias, w, s), product.gate};
    if (!w.divided()) {
      Tensor left = OfShard(scratch, s), result = OfShard(out, s);
      shard(s).MatMulGlu(OfShard(x, s), theirs, left, result);
      continue;
    }
    Tensor halves = RoomOf(s, kHalves, x.rows, own->rows);
    Tensor part = PartOf(s, x.rows, own->rows / 2);
    shard(s).MatMulGlu(OfShard(x, s), theirs, halves, part);
    pieces.push_back({part, {0, w.pieces[s].front().row, own->rows / 2}});
  }
  if (w.divided()) Share(pieces, out);
}

// Inner values are gathered for each chunk of rows, what comes out once.
void ShardedKernels::MixDivided(const Tensor& x, const ExpertCall& call, Tensor& out) {
  const auto& table = static_cast<const ShardedExperts&>(call.table);
  const ShardedMatrix& gate_up = AsSharded(*table.experts.front().gate_up);
  const ShardedMatrix& down = AsSharded(*table.experts.front().down);
  const std::int64_t chosen = call.rule.chosen, chunk = call.scratch.input.rows / chosen;
  BANYAN_CHECK(gate_up.in_halves && (chunk > 0 || x.rows == 0));
  std::vector<Tensor> scores(count());
  const auto call_of = [&](size_t s, const ExpertScratch& scratch) {
    scores[s] = OfShard(call.scores, s);
    return ExpertCall{*table.of_shard[s], scores[s], call.rule, scratch};
  };
  std::vector<ColumnPiece> outputs;
  for (std::int64_t begin = 0; begin < x.rows; begin += chunk) {
    const ExpertRows rows{begin, std::min(begin + chunk, x.rows)};
    const std::int64_t slots = (rows.end - rows.begin) * chosen;
    const ExpertScratch& all = call.scratch;
    std::vector<ColumnPiece> pieces;
    for (size_t s = 0; s < count(); ++s) {
      // One without inner values chooses experts all the same, for the outputs.
      const bool none = gate_up.of_shard[s] == nullptr;
      const std::int64_t own = none ? 0 : gate_up.of_shard[s]->rows / 2;
      const ExpertScratch scratch{
          OfShard(all.input, s), OfShard(all.gate_up, s).Narrow(all.gate_up.rows, 2 * own), {}, {}};
      const Room room = other_turn_ ? kOtherInner : kInner;
      Tensor part = RoomOf(s, room, all.inner.rows, own).Narrow(slots, own);
      shard(s).ExpertInner(OfShard(x, s), call_of(s, scratch), rows, part);
      if (!none) pieces.push_back({part, {0, gate_up.pieces[s].front().row, own}});
    }
    Tensor inner = all.inner.Prefix(slots);
    Share(pieces, inner);
    for (size_t s = 0; s < count(); ++s) {
      if (down.of_shard[s] == nullptr) continue;
      const std::int64_t own = down.of_shard[s]->rows;
      const ExpertScratch scratch{{}, {}, {}, OfShard(all.output, s).Narrow(all.output.rows, own)};
      Tensor mixed = RoomOf(s, kMixed, x.rows, own);
      shard(s).ExpertOutputs(call_of(s, scratch), rows, OfShard(inner, s), mixed);
      if (begin == 0) outputs.push_back({mixed, {0, down.pieces[s].front().row, own}});
    }
  }
  if (x.rows > 0) Share(outputs, out);
}

// --- Attention: every shard has a range of the key heads -----------------------------------------

bool ShardedKernels::IsWhole(const AttentionShape& shape) const {
  return DivideHeads(shape.kv_heads, static_cast<int>(count())).whole;
}

ShardedKernels::ShardHeads ShardedKernels::HeadsOf(const AttentionShape& shape, size_t s) {
  const Stretch keys = DivideHeads(shape.kv_heads, static_cast<int>(count())).key_heads[s];
  const std::int64_t group = shape.heads / shape.kv_heads;
  ShardHeads heads{shape, keys.first * group, keys.first};
  heads.shape.heads = static_cast<int>(keys.count * group);
  heads.shape.kv_heads = static_cast<int>(keys.count);
  heads.shape.sinks = SinksOf(shape, heads, s);
  return heads;
}

const Vector* ShardedKernels::SinksOf(const AttentionShape& shape, const ShardHeads& heads,
                                      size_t s) {
  if (shape.sinks == nullptr) return nullptr;
  const ShardedVector& all = AsSharded(*shape.sinks);
  if (IsWhole(shape)) return all.of_shard[s].get();
  all.parts.resize(count());
  if (all.parts[s] == nullptr) {
    const std::span<const float> values(all.values);
    all.parts[s] = shard(s).LoadVector(
        values.subspan(static_cast<size_t>(heads.query), static_cast<size_t>(heads.shape.heads)));
  }
  return all.parts[s].get();
}

// A norm over all heads comes before they are divided.
void ShardedKernels::NormWhole(const AttentionShape& shape, const QkNormWeights& norm,
                               Tensor& qkv) {
  const auto columns = [&](const Vector* weight, std::int64_t from, std::int64_t size) {
    if (weight == nullptr) return;
    for (size_t s = 0; s < count(); ++s) {
      Tensor all = OfShard(qkv, s), part = RoomOf(s, kWholeNorm, qkv.rows, size);
      shard(s).NormColumns(from, *AsSharded(*weight).of_shard[s], norm.eps, part, all);
    }
  };
  const std::int64_t queries = std::int64_t{shape.heads} * shape.head_dim;
  columns(norm.query, 0, queries);
  if (shape.stores) columns(norm.key, queries, std::int64_t{shape.kv_heads} * shape.head_dim);
}

void ShardedKernels::RotateAndStore(const StepInputs& step, int layer, const AttentionShape& shape,
                                    const QkNormWeights& norm, Tensor& qkv, KvMemory& kv) {
  const bool whole = IsWhole(shape);
  QkNormWeights left = norm;
  if (norm.whole && !whole) {
    NormWhole(shape, norm, qkv);
    left.query = left.key = nullptr;
  }
  for (size_t s = 0; s < count(); ++s) {
    const ShardHeads heads = HeadsOf(shape, s);
    Tensor all = OfShard(qkv, s);
    Tensor own = all;
    if (!whole) {
      const std::int64_t dim = shape.head_dim;
      const std::int64_t stored = shape.stores ? heads.shape.kv_heads : 0;
      const std::int64_t queries = heads.shape.heads * dim, keys = stored * dim;
      own = RoomOf(s, kHeads, qkv.rows, queries + 2 * keys);
      const std::int64_t first_key = (shape.heads + heads.key) * dim;
      const std::int64_t first_value = first_key + shape.kv_heads * dim;
      std::vector<ColumnPiece> pieces = {{all, {heads.query * dim, 0, queries}}};
      if (keys > 0) {
        pieces.push_back({all, {first_key, queries, keys}});
        pieces.push_back({all, {first_value, queries + keys, keys}});
      }
      shard(s).Gather(pieces, own);
    }
    shard(s).RotateAndStore(*AsSharded(step).of_shard[s], layer, heads.shape, NormOfShard(left, s),
                            own, *AsSharded(kv).of_shard[s]);
  }
}

void ShardedKernels::Attend(const StepInputs& step, int layer, const AttentionShape& shape,
                            const Tensor& qkv, const KvMemory& kv, Tensor& out) {
  const bool whole = IsWhole(shape);
  std::vector<ColumnPiece> pieces;
  for (size_t s = 0; s < count(); ++s) {
    const ShardHeads heads = HeadsOf(shape, s);
    const StepInputs& own_step = *AsSharded(step).of_shard[s];
    const KvMemory& own_kv = *AsSharded(kv).of_shard[s];
    if (whole) {
      Tensor own = OfShard(out, s);
      shard(s).Attend(own_step, layer, heads.shape, OfShard(qkv, s), own_kv, own);
      continue;
    }
    const std::int64_t dim = shape.head_dim, values = heads.shape.heads * dim;
    const std::int64_t stored = shape.stores ? heads.shape.kv_heads : 0;
    Tensor own = PartOf(s, qkv.rows, values);
    shard(s).Attend(own_step, layer, heads.shape,
                    RoomOf(s, kHeads, qkv.rows, values + 2 * stored * dim), own_kv, own);
    pieces.push_back({own, {0, heads.query * dim, values}});
  }
  if (!whole) Share(pieces, out);
}

}  // namespace banyan
