// KV memory whose layers differ in their heads, layers that attend to what another one stored, and
// tensors of several widths in one memory.
#include "kernels/attention_fixture.h"

namespace banyan::optest {
namespace {

class AttentionLayersTest : public OperationTest {};

// What every layer of a memory gives for the same contents: 2 layers of 2 heads of 24 values, one
// of 1 head of 64, 2 of 3 heads of 40 and one of 1 head of 320.
class LayersThatDiffer {
 public:
  LayersThatDiffer(Kernels& kernels, const Tree& tree) : kernels_(kernels), tree_(tree) {
    std::vector<float> frequency;
    for (int i = 0; i < 6; ++i) frequency.push_back(std::pow(0.3f, static_cast<float>(i)));
    kernels.SetRopes(std::vector<RopeTable>{{frequency, 1.0f}});
    KvShape shape{static_cast<int>(Heads().size()), 2, 24};
    shape.by_layer = Heads();
    kv_ = kernels.NewKvMemory(shape, 2 * tree.page_count);
  }

  static std::vector<KvHeads> Heads() {
    return {{2, 24}, {2, 24}, {1, 64}, {3, 40}, {3, 40}, {1, 320}};
  }
  static AttentionShape ShapeOf(int layer) {
    const KvHeads keys = Heads()[static_cast<size_t>(layer)];
    return {6, keys.heads, keys.dim, layer % 2 == 0 ? 33 : 0, 0.2f, 0};
  }
  static std::int64_t Columns(int layer, bool stores) {
    const AttentionShape shape = ShapeOf(layer);
    return std::int64_t{shape.heads + (stores ? 2 * shape.kv_heads : 0)} * shape.head_dim;
  }
  static std::int64_t MostColumns() { return Columns(5, true); }

  void StoreAll() {
    const KeyBatch all = AllKeys(tree_);
    const auto step = kernels_.Upload(Fed(all), EmptyPlan(all.batch.rows()));
    Tensor memory = kernels_.NewTensor(all.batch.rows(), MostColumns());
    for (int layer = 0; layer < static_cast<int>(Heads().size()); ++layer) {
      Tensor qkv = memory.Narrow(memory.rows, Columns(layer, true));
      kernels_.Embed(*step, *LoadFloats(kernels_, Contents(all, layer, true)), qkv);
      kernels_.RotateAndStore(*step, layer, ShapeOf(layer), {}, qkv, *kv_);
    }
  }

  // Pages p of the tree become pages p + page_count.
  void MovePages() {
    std::vector<PageCopy> copies;
    for (std::vector<std::int32_t>& pages : tree_.pages) {
      for (std::int32_t& page : pages) {
        copies.push_back({page, page + tree_.page_count});
        page += tree_.page_count;
      }
    }
    kernels_.CopyPages(copies, *kv_);
  }

  // Of each layer, stored anew for the step's rows or, without `stores`, read as it is there.
  std::vector<HostMatrix> Attend(bool stores) {
    const KeyBatch rows = StepRows(tree_);
    const auto step = kernels_.Upload(Fed(rows), BuildTestPlan(tree_, {}));
    Tensor memory = kernels_.NewTensor(rows.batch.rows(), MostColumns());
    std::vector<HostMatrix> found;
    for (int layer = 0; layer < static_cast<int>(Heads().size()); ++layer) {
      AttentionShape shape = ShapeOf(layer);
      shape.stores = stores;
      Tensor qkv = memory.Narrow(memory.rows, Columns(layer, stores));
      kernels_.Embed(*step, *LoadFloats(kernels_, Contents(rows, layer, stores)), qkv);
      kernels_.RotateAndStore(*step, layer, shape, {}, qkv, *kv_);
      Tensor out = Poisoned(kernels_, rows.batch.rows(), std::int64_t{6} * shape.head_dim);
      kernels_.Attend(*step, layer, shape, qkv, *kv_, out);
      found.push_back(Read(kernels_, out));
    }
    return found;
  }

 private:
  static Batch Fed(const KeyBatch& rows) {
    Batch batch = rows.batch;
    std::iota(batch.tokens.begin(), batch.tokens.end(), 0);
    return batch;
  }
  // The queries come first: rows without keys have the same ones.
  HostMatrix Contents(const KeyBatch& rows, int layer, bool stores) const {
    const HostMatrix all = RandomMatrix(tree_.key_count, Columns(layer, true), 31u + layer);
    HostMatrix some = Select(all, rows.keys);
    if (stores) return some;
    HostMatrix queries{some.rows, Columns(layer, false), {}};
    for (std::int64_t r = 0; r < some.rows; ++r) {
      const auto row = some.Row(r).first(static_cast<size_t>(queries.columns));
      queries.values.insert(queries.values.end(), row.begin(), row.end());
    }
    return queries;
  }

  Kernels& kernels_;
  Tree tree_;
  std::shared_ptr<KvMemory> kv_;
};

Tree ForestOfThree() { return MakeTree({{-1, 150, 0, 3}, {0, 21, 150, 5}, {0, 16, 150, 1}}); }

TEST_P(AttentionLayersTest, EqualTheReference) {
  LayersThatDiffer tested(*tested_, ForestOfThree()), reference(*reference_, ForestOfThree());
  tested.StoreAll();
  reference.StoreAll();
  const std::vector<HostMatrix> found = tested.Attend(true), wanted = reference.Attend(true);
  for (size_t layer = 0; layer < found.size(); ++layer) {
    SCOPED_TRACE("layer " + std::to_string(layer));
    const double part = 12 * (KvEps(GetParam().kv_type) + ActivationEps()) + 1e-5;
    ExpectNear(found[layer], wanted[layer],
               [&](std::int64_t, std::int64_t) { return part * MaxAbs(wanted[layer].values); });
    if (HasFatalFailure()) return;
  }
}

TEST_P(AttentionLayersTest, QueriesAloneReadWhatIsThere) {
  LayersThatDiffer layers(*tested_, ForestOfThree());
  layers.StoreAll();
  const std::vector<HostMatrix> stored = layers.Attend(true), read = layers.Attend(false);
  for (size_t layer = 0; layer < stored.size(); ++layer) {
    ExpectSameBits(read[layer].values, stored[layer].values, "layer " + std::to_string(layer));
  }
}

TEST_P(AttentionLayersTest, CopiesOfPagesAreOfAllLayers) {
  LayersThatDiffer layers(*tested_, ForestOfThree());
  layers.StoreAll();
  const std::vector<HostMatrix> before = layers.Attend(true);
  layers.MovePages();
  const std::vector<HostMatrix> after = layers.Attend(false);
  for (size_t layer = 0; layer < before.size(); ++layer) {
    ExpectSameBits(after[layer].values, before[layer].values, "layer " + std::to_string(layer));
  }
}

// A product of narrow rows, after wider and broken ones: what stands behind a row does not count.
TEST_P(AttentionLayersTest, NarrowRowsAreWhatTheyAreAlone) {
  const HostMatrix wide = ConstantMatrix(5, 70, kNaN), x = RandomMatrix(5, 37, 41);
  const auto w = LoadFloats(*tested_, RandomMatrix(23, 37, 42));
  const auto weight = tested_->LoadVector(RandomMatrix(1, 37, 43).values);
  const auto product = [&](const Tensor& rows) {
    Tensor normed = tested_->NewTensor(5, 37), out = tested_->NewTensor(5, 23);
    tested_->RmsNorm(rows, *weight, 1e-5f, normed);
    tested_->MatMul(normed, *w, nullptr, out);
    Tensor direct = tested_->NewTensor(5, 23);
    tested_->MatMul(rows, *w, nullptr, direct);
    tested_->Add(direct, out);
    return Read(*tested_, out);
  };
  const auto step = tested_->Upload(PlainBatch(5), EmptyPlan(5));
  Tensor memory = tested_->NewTensor(5, 70);
  tested_->Embed(*step, *LoadFloats(*tested_, wide), memory);
  Tensor narrow = memory.Narrow(5, 37);
  tested_->Embed(*step, *LoadFloats(*tested_, x), narrow);
  ExpectSameBits(product(narrow).values, product(Fill(*tested_, x)).values, "narrow rows");
}

INSTANTIATE_TEST_SUITE_P(Backends, AttentionLayersTest, testing::ValuesIn(AllBackends()),
                         BackendName);

}  // namespace
}  // namespace banyan::optest
