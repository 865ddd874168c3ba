#include "formats/tensor_store.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace banyan {

bool TensorStore::Has(std::string_view name) const { return entries_.contains(name); }

const HostTensor& TensorStore::GetAnyShape(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    const std::string files =
        entries_.empty()
            ? "no tensors at all"
            : fmt::format("{} tensors, among them '{}'", entries_.size(), entries_.begin()->first);
    Throw(ErrorKind::kNotFound, "{}: no tensor '{}'; found {}",
          entries_.empty() ? "model" : entries_.begin()->second.file, name, files);
  }
  const Entry& entry = found->second;
  if (!entry.unsupported_type.empty()) {
    Throw(ErrorKind::kUnsupported, "{}: tensor '{}' has element type {}, which cannot be read",
          entry.file, name, entry.unsupported_type);
  }
  return entry.tensor;
}

const HostTensor& TensorStore::Get(std::string_view name,
                                   std::span<const std::int64_t> expected_shape) const {
  const HostTensor& tensor = GetAnyShape(name);
  if (!std::ranges::equal(tensor.shape, expected_shape)) {
    Throw(ErrorKind::kFormat, "{}: tensor '{}': expected shape {}, found {}",
          entries_.find(name)->second.file, name, ShapeText(expected_shape),
          ShapeText(tensor.shape));
  }
  return tensor;
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
  Insert({std::move(tensor), "", file, bytes});
}

void TensorStore::AddUnsupported(const std::string& name, const std::string& type_name,
                                 size_t bytes, const std::string& file) {
  HostTensor nameless;
  nameless.name = name;
  Insert({std::move(nameless), type_name, file, bytes});
}

void TensorStore::Absorb(TensorStore other) {
  for (MappedFile& file : other.files_) files_.push_back(std::move(file));
  for (auto& [name, entry] : other.entries_) Insert(std::move(entry));
}

}  // namespace banyan
