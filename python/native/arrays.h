// Numbers for numpy without a copy: the array owns the vector.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>
#include <vector>

namespace banyan::python {

template <typename Number>
nanobind::object ArrayOf(std::vector<Number>&& numbers, std::vector<size_t> shape) {
  auto* kept = new std::vector<Number>(std::move(numbers));
  const nanobind::capsule owner(
      kept, [](void* vector) noexcept { delete static_cast<std::vector<Number>*>(vector); });
  return nanobind::cast(
      nanobind::ndarray<nanobind::numpy, Number>(kept->data(), shape.size(), shape.data(), owner));
}

template <typename Number>
nanobind::object ArrayOf(std::vector<Number>&& numbers) {
  const size_t size = numbers.size();
  return ArrayOf(std::move(numbers), {size});
}

}  // namespace banyan::python
