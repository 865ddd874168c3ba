// Attention of a step: uploads, rotation and store, and the call of attention (step_attention.h).
#include "kernels/cuda/step/step_attention.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/cuda/choices/choices.h"
#include "kernels/cuda/rows/rope_store.h"
#include "kernels/cuda/rows/tensor_memory.h"
#include "kernels/cuda/weights/device_matrix.h"

namespace banyan::cuda {

StepAttention::StepAttention(std::shared_ptr<const Device> device, const KernelOptions& options,
                             Staging& staging)
    : device_(std::move(device)),
      precision_(options.precision),
      kv_type_(options.kv_type),
      staging_(staging),
      steps_(device_, staging_),
      next_unit_(device_, 2 * sizeof(std::int32_t), "counters of attention"),
      partials_(device_) {
  next_unit_.Zero();
}

GroupJoining StepAttention::JoiningFor(const AttentionShape& shape) const {
  if (FormOf(shape) != UnitForm::kWideAndNarrow) return {};
  return {LeastWideRows(shape.heads / shape.kv_heads), shape.kv_heads, device_->multiprocessors,
          kv_type_ == KvType::kQ8 ? kInt8UnitTimes : kUnitTimes};
}

void StepAttention::SetRopes(std::span<const RopeTable> ropes) {
  ropes_.assign(ropes.begin(), ropes.end());
  inverse_frequencies_.clear();
  for (const RopeTable& rope : ropes_) {
    const auto bytes = static_cast<std::int64_t>(rope.inverse_frequency.size() * sizeof(float));
    DeviceMemory& memory =
        inverse_frequencies_.emplace_back(device_, bytes, "rotation frequencies");
    memory.CopyFromHost(rope.inverse_frequency.data(), bytes);
  }
}

std::unique_ptr<DeviceStep> StepAttention::Upload(const Batch& batch, const AttentionPlan& plan,
                                                  const PendingChoices* earlier) {
  if (!asked_.empty()) splits_ = asked_;
  asked_.clear();
  auto step = steps_.Send(batch, plan, ropes_, splits_);
  if (std::any_of(batch.tokens.begin(), batch.tokens.end(), IsChoice)) {
    BANYAN_CHECK(earlier != nullptr);
    FeedChosen(device_->stream, static_cast<const DeviceChoices*>(earlier)->results(), step->rows,
               step->tokens);
  }
  for (size_t i = 0; i < ropes_.size(); ++i) {
    const auto pairs = static_cast<int>(ropes_[i].inverse_frequency.size());
    const RopeAngles angles{step->positions, inverse_frequencies_[i].As<float>(), step->rows, pairs,
                            ropes_[i].scale};
    FillRopeTable(device_->stream, angles, step->ropes[i].cosine, step->ropes[i].sine);
  }
  return step;
}

void StepAttention::RotateAndStore(const DeviceStep& step, const AttentionShape& shape,
                                   const QkNormWeights& norm, Tensor& qkv, const KvView& kv) {
  BANYAN_CHECK(qkv.rows == step.rows);
  RotateCall call;
  if (shape.rope != kNoRope) {
    const auto rope = static_cast<size_t>(shape.rope);
    BANYAN_CHECK(shape.rope >= 0 && rope < ropes_.size());
    call.pairs = static_cast<int>(ropes_[rope].inverse_frequency.size());
    BANYAN_CHECK(2 * call.pairs <= shape.head_dim);
    call.cosine = step.ropes[rope].cosine;
    call.sine = step.ropes[rope].sine;
    call.query_factor = step.ropes[rope].query_factor;
  }
  call.rows = step.rows;
  call.heads = shape.heads;
  call.slots = step.slots;
  call.query_norm = Values(norm.query);
  call.key_norm = Values(norm.key);
  call.value_norm = Values(norm.value);
  call.stores = shape.stores;
  call.whole_norm = norm.whole;
  call.eps = norm.eps;
  call.qkv = Float32(qkv);
  call.stride = Stride(qkv.columns);
  call.kv = kv;
  call.type = kv_type_;
  call.lists = step.lists.data();
  call.lists_bytes = static_cast<std::int64_t>(step.lists.size());
  if (FormOf(step, shape) == UnitForm::kWideAndNarrow) AddScaledQueries(shape, call);
  rotated_ = call.qkv;
  RotateAndStoreRows(device_->stream, call);
}

void StepAttention::Attend(const DeviceStep& step, const AttentionShape& shape, const Tensor& qkv,
                           const KvView& kv, Tensor& out) {
  const UnitSplit split = {shape.heads / shape.kv_heads, shape.kv_heads, FormOf(step, shape)};
  if (std::ranges::find(asked_, split) == asked_.end()) asked_.push_back(split);
  AttentionCall call;
  call.units = step.UnitsFor(split, staging_);
  call.form = split.form;
  call.next_unit = next_unit_.As<std::int32_t>();
  call.pages = step.pages;
  call.positions = step.positions;
  call.merge_begin = step.merge_begin;
  call.merges = step.merges;
  call.entries = step.partials;
  call.context = step.context;
  call.rows = step.rows;
  call.shape = shape;
  call.sinks = Values(shape.sinks);
  call.query = Float32(qkv);
  call.query_stride = Stride(qkv.columns);
  call.kv = kv;
  if (call.form == UnitForm::kWideAndNarrow) {
    BANYAN_CHECK(rotated_ == call.query);
    call.scaled_query = partials_.queries();
  }
  call.partials = partials_.Reserve(step.partials, shape);
  call.out = OutputForProducts(out, precision_);
  call.out_stride = Stride(out.columns);
  call.finishes = step.single_partials && CanFinish(call);
  try {
    AttendUnits(device_->stream, device_->multiprocessors, kv_type_, call);
    if (!call.finishes) MergePartials(device_->stream, call);
  } catch (...) {
    // The merge would have: another try must not miss the tasks that were drawn in this one.
    if (device_->recording == nullptr) next_unit_.Zero();
    throw;
  }
}

UnitForm StepAttention::FormOf(const AttentionShape& shape) const {
  return UnitFormFor(kv_type_, shape.head_dim);
}

// One scaled query serves all units of a row, so a temperature of some of them asks for blocks.
UnitForm StepAttention::FormOf(const DeviceStep& step, const AttentionShape& shape) const {
  return step.context.pages > 0 ? UnitForm::kBlocks : FormOf(shape);
}

void StepAttention::AddScaledQueries(const AttentionShape& shape, RotateCall& call) {
  call.scaled_query = partials_.ReserveQueries(std::int64_t{call.rows} * shape.heads *
                                               call.kv.layout.padded_dim * 2);
  call.query_scale = shape.scale * kLog2E;
}

}  // namespace banyan::cuda
