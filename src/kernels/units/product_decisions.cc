#include "kernels/units/product_decisions.h"

#include <fmt/format.h>

#include <charconv>

namespace banyan {
namespace {

constexpr std::int32_t kMostOfField = 65535;

// Takes `expected` off the front of the text; false when it is not there.
bool TakePrefix(std::string_view expected, std::string_view& text) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

template <typename Number>
bool TakeNumber(Number& number, std::string_view& text) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

std::string TextOf(const AlgorithmNumbers& numbers) {
  std::string text;
  for (std::size_t i = 0; i < kAlgorithmFields.size(); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : " ", kAlgorithmFields[i], numbers.value[i]);
  }
  return text;
}

std::optional<AlgorithmNumbers> AlgorithmNumbersOf(std::string_view text) {
  AlgorithmNumbers numbers;
  for (std::size_t i = 0; i < kAlgorithmFields.size(); ++i) {
    if (i > 0 && !TakePrefix(" ", text)) return std::nullopt;
    if (!TakePrefix(kAlgorithmFields[i], text) || !TakePrefix(" ", text)) return std::nullopt;
    if (!TakeNumber(numbers.value[i], text) || numbers.value[i] > kMostOfField) {
      return std::nullopt;
    }
  }
  if (!text.empty()) return std::nullopt;
  return numbers;
}

std::optional<ProductKey> ProductKeyOf(std::string_view text) {
  const std::string_view whole = text;
  ProductKey key;
  if (!TakeNumber(key.outputs, text) || !TakePrefix(" x ", text) || !TakeNumber(key.inner, text) ||
      !TakePrefix(" ", text)) {
    return std::nullopt;
  }
  const std::size_t comma = text.find(", ");
  if (comma == std::string_view::npos) return std::nullopt;
  key.form = text.substr(0, comma);
  text.remove_prefix(comma + 2);
  if (!TakeNumber(key.most_rows, text) || !TakePrefix(" rows", text)) return std::nullopt;
  if (TakePrefix(", ", text)) key.qualifier = text;
  // What is not written as we write it is none of ours.
  if (TextOf(key) != whole) return std::nullopt;
  return key;
}

std::string TextOf(const ProductKey& key) {
  return fmt::format("{} x {} {}, {} rows{}{}", key.outputs, key.inner, key.form, key.most_rows,
                     key.qualifier.empty() ? "" : ", ", key.qualifier);
}

}  // namespace banyan
