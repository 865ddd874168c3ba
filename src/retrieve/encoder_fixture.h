// For the tests of encoders: loading, comparing, and an encoder computed the plain way. Tests only.
#pragma once

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "banyan/encoder.h"
#include "banyan/error.h"
#include "kernels/kernels.h"
#include "support/tiny_encoder.h"

namespace banyan::encodertest {

using Texts = std::vector<std::vector<TokenId>>;

// Those that this build and machine have.
inline std::vector<std::string> Devices() {
  std::vector<std::string> devices = {"cpu", "reference"};
  try {
    MakeKernels("cuda", {});
    devices.emplace_back("cuda");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
  }
  return devices;
}

inline std::shared_ptr<Encoder> LoadOn(const std::string& device, const std::filesystem::path& path,
                                       int threads = 2, const std::string& precision = "f32") {
  LoadOptions options;
  options.model = path.string();
  options.device = device;
  options.precision = precision;
  options.threads = threads;
  return Encoder::Load(options);
}

template <typename Expected>
double LargestDifference(const std::vector<float>& found, const Expected& expected) {
  EXPECT_EQ(found.size(), expected.size());
  double largest = 0.0;
  for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    const double difference = std::fabs(found[i] - static_cast<double>(expected[i]));
    if (!(difference <= largest)) largest = difference;  // NaN stays
  }
  return largest;
}

}  // namespace banyan::encodertest

namespace banyan::testing_support {

// In double, for one text: what the library is compared with.
class PlainEncoder {
 public:
  using Row = std::vector<double>;
  using Rows = std::vector<Row>;

  explicit PlainEncoder(const TinyEncoderShape& shape) : shape_(shape), weights_(shape) {}

  // The vectors of a text's tokens after the last layer.
  Rows Run(const std::vector<int>& text) const {
    Rows x;
    for (size_t i = 0; i < text.size(); ++i) {
      Row row = TableRow("embeddings.word_embeddings.weight", static_cast<size_t>(text[i]));
      AddTo(row, TableRow("embeddings.position_embeddings.weight",
                          i + static_cast<size_t>(shape_.first_position())));
      AddTo(row, TableRow("embeddings.token_type_embeddings.weight", 0));
      x.push_back(Norm("embeddings.LayerNorm", row));
    }
    for (int layer = 0; layer < shape_.layers; ++layer) {
      x = RunLayer("encoder.layer." + std::to_string(layer) + ".", x);
    }
    return x;
  }

  // W x + b
  Row Linear(const std::string& name, const Row& x) const {
    const std::vector<float>& bias = weights_.Get(name + ".bias");
    const std::vector<float>& weight = weights_.Get(name + ".weight");
    Row out(bias.begin(), bias.end());
    for (size_t n = 0; n < out.size(); ++n) {
      for (size_t k = 0; k < x.size(); ++k) out[n] += weight[n * x.size() + k] * x[k];
    }
    return out;
  }

  static Row Normalized(Row x) {
    double squares = 0.0;
    for (const double v : x) squares += v * v;
    for (double& v : x) v /= std::sqrt(squares);
    return x;
  }

  static Row Mean(const Rows& rows) {
    Row sum(rows.front().size(), 0.0);
    for (const Row& row : rows) AddTo(sum, row);
    for (double& v : sum) v /= static_cast<double>(rows.size());
    return sum;
  }

 private:
  Row TableRow(const std::string& name, size_t row) const {
    const std::vector<float>& table = weights_.Get(name);
    const auto hidden = static_cast<size_t>(shape_.hidden);
    const auto begin = table.begin() + static_cast<std::ptrdiff_t>(row * hidden);
    return Row(begin, begin + shape_.hidden);
  }

  static void AddTo(Row& x, const Row& delta) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += delta[i];
  }

  Row Norm(const std::string& name, Row x) const {
    double mean = 0.0, variance = 0.0;
    for (const double v : x) mean += v / static_cast<double>(x.size());
    for (const double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) * weights_.Get(name + ".weight")[i] +
             weights_.Get(name + ".bias")[i];
    }
    return x;
  }

  Rows RunLayer(const std::string& prefix, const Rows& x) const {
    Rows q, k, v, out;
    for (const Row& row : x) {
      q.push_back(Linear(prefix + "attention.self.query", row));
      k.push_back(Linear(prefix + "attention.self.key", row));
      v.push_back(Linear(prefix + "attention.self.value", row));
    }
    for (size_t i = 0; i < x.size(); ++i) {
      Row row = Linear(prefix + "attention.output.dense", Attend(q[i], k, v));
      AddTo(row, x[i]);
      row = Norm(prefix + "attention.output.LayerNorm", row);
      Row inner = Linear(prefix + "intermediate.dense", row);
      for (double& value : inner) value *= 0.5 * (1.0 + std::erf(value / std::sqrt(2.0)));
      Row delta = Linear(prefix + "output.dense", inner);
      AddTo(row, delta);
      out.push_back(Norm(prefix + "output.LayerNorm", row));
    }
    return out;
  }

  Row Attend(const Row& query, const Rows& keys, const Rows& values) const {
    Row out(query.size(), 0.0);
    const size_t dim = query.size() / static_cast<size_t>(shape_.heads);
    for (size_t begin = 0; begin < query.size(); begin += dim) {
      std::vector<double> weights;
      double sum = 0.0;
      for (const Row& key : keys) {
        double score = 0.0;
        for (size_t i = begin; i < begin + dim; ++i) score += query[i] * key[i];
        weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
        sum += weights.back();
      }
      for (size_t j = 0; j < values.size(); ++j) {
        for (size_t i = begin; i < begin + dim; ++i) out[i] += weights[j] / sum * values[j][i];
      }
    }
    return out;
  }

  TinyEncoderShape shape_;
  TinyEncoderWeights weights_;
};

}  // namespace banyan::testing_support
