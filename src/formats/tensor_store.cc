// Tensors by name, with checks of shape and element type.
#include "formats/tensor_store.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace banyan {
namespace {

constexpr const char* kBytes = "U8";

}  // namespace

bool TensorStore::Has(std::string_view name) const { return entries_.contains(name); }

const TensorStore::Entry& TensorStore::Find(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    const std::string files =
        entries_.empty()
            ? "no tensors at all"
            : fmt::format("{} tensors, among them '{}'", entries_.size(), entries_.begin()->first);
    Throw(ErrorKind::kNotFound, "{}: no tensor '{}'; found {}",
          entries_.empty() ? "model" : entries_.begin()->second.file, name, files);
  }
  return found->second;
}

void TensorStore::CheckShape(const Entry& entry, std::span<const std::int64_t> expected_shape) {
  if (std::ranges::equal(entry.tensor.shape, expected_shape)) return;
  // A matrix of one row: llama.cpp's quantiser writes it as a vector.
  const bool one_row = expected_shape.size() == 2 && expected_shape[0] == 1;
  if (one_row && std::ranges::equal(entry.tensor.shape, expected_shape.subspan(1))) return;
  Throw(ErrorKind::kFormat, "{}: tensor '{}': expected shape {}, found {}", entry.file,
        entry.tensor.name, ShapeText(expected_shape), ShapeText(entry.tensor.shape));
}

const TensorStore::Entry& TensorStore::FindReadable(std::string_view name) const {
  const Entry& entry = Find(name);
  if (!entry.unsupported_type.empty()) {
    Throw(ErrorKind::kUnsupported, "{}: tensor '{}' has element type {}, which cannot be read",
          entry.file, name, entry.unsupported_type);
  }
  return entry;
}

const HostTensor& TensorStore::GetAnyShape(std::string_view name) const {
  const Entry& entry = FindReadable(name);
  if (NeedsScales(entry.tensor.dtype) && !entry.scaled) {
    Throw(ErrorKind::kUnsupported,
          "{}: tensor '{}' has element type {}: codes, which cannot be read without scales",
          entry.file, name, TraitsOf(entry.tensor.dtype).name);
  }
  return entry.tensor;
}

std::vector<std::string> TensorStore::Quantized() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) {
    if (entry.unsupported_type.empty() && NeedsScales(entry.tensor.dtype)) names.push_back(name);
  }
  return names;
}

const HostTensor& TensorStore::GetQuantized(std::string_view name) const {
  return FindReadable(name).tensor;
}

void TensorStore::MarkScaled(std::string_view name) {
  const auto found = entries_.find(name);
  BANYAN_CHECK(found != entries_.end());
  found->second.scaled = true;
}

const std::string& TensorStore::FileOf(std::string_view name) const { return Find(name).file; }

const HostTensor& TensorStore::Get(std::string_view name,
                                   std::span<const std::int64_t> expected_shape) const {
  const HostTensor& tensor = GetAnyShape(name);
  CheckShape(Find(name), expected_shape);
  return tensor;
}

const HostTensor& TensorStore::GetBytes(std::string_view name,
                                        std::span<const std::int64_t> expected_shape) const {
  const Entry& entry = Find(name);
  if (entry.unsupported_type != kBytes) {
    Throw(ErrorKind::kUnsupported, "{}: tensor '{}': expected element type {}, found {}",
          entry.file, name, kBytes,
          entry.unsupported_type.empty() ? TraitsOf(entry.tensor.dtype).name
                                         : entry.unsupported_type.c_str());
  }
  CheckShape(entry, expected_shape);
  return entry.tensor;
}

const HostTensor* TensorStore::FindBytes(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end() || found->second.unsupported_type != kBytes) return nullptr;
  return &found->second.tensor;
}

const HostTensor& TensorStore::Get(std::string_view name,
                                   std::initializer_list<std::int64_t> expected_shape) const {
  return Get(name, std::span(expected_shape.begin(), expected_shape.size()));
}

std::vector<std::string> TensorStore::Names() const {
  std::vector<std::string> names;
  names.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

std::vector<std::string> TensorStore::Files() const {
  std::vector<std::string> files;
  for (const MappedFile& file : files_) files.push_back(file.path());
  return files;
}

size_t TensorStore::TotalBytes() const {
  size_t total = 0;
  for (const auto& [name, entry] : entries_) total += entry.stored_bytes;
  return total;
}

void TensorStore::Forget(const HostTensor& tensor) const {
  for (const MappedFile& file : files_) file.Forget(tensor.bytes);
}

std::span<const std::byte> TensorStore::AddFile(MappedFile file) {
  files_.push_back(std::move(file));
  return files_.back().bytes();
}

void TensorStore::Insert(Entry entry) {
  const auto [place, inserted] = entries_.try_emplace(entry.tensor.name, std::move(entry));
  if (!inserted) {
    Throw(ErrorKind::kFormat, "{}: tensor '{}' is there twice (also in {})", entry.file,
          place->first, place->second.file);
  }
}

void TensorStore::Add(HostTensor tensor, const std::string& file) {
  const size_t bytes = tensor.bytes.size();
  Insert({std::move(tensor), "", file, bytes, false});
}

void TensorStore::AddUnsupported(const std::string& name, const std::string& type_name,
                                 size_t bytes, const std::string& file) {
  HostTensor nameless;
  nameless.name = name;
  Insert({std::move(nameless), type_name, file, bytes, false});
}

void TensorStore::AddBytes(HostTensor tensor, const std::string& file) {
  const size_t bytes = tensor.bytes.size();
  Insert({std::move(tensor), kBytes, file, bytes, false});
}

void TensorStore::Absorb(TensorStore other) {
  for (MappedFile& file : other.files_) files_.push_back(std::move(file));
  for (auto& [name, entry] : other.entries_) Insert(std::move(entry));
}

}  // namespace banyan
