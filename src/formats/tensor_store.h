// The tensors of one model by name, whatever file format and however many files they come from.
// Owns the mapped files; the tensors are views into them and stay valid while the store lives
// (moving it included). A byte address has no alignment guarantee: read through memcpy.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "tensor/host_tensor.h"

namespace banyan {

class TensorStore {
 public:
  TensorStore() = default;
  TensorStore(TensorStore&&) = default;
  TensorStore& operator=(TensorStore&&) = default;

  [[nodiscard]] bool Has(std::string_view name) const;
  [[nodiscard]] bool Empty() const { return entries_.empty(); }

  // The tensor, whose shape must be `expected_shape` (outermost first). Throws kNotFound when there
  // is no such tensor, kFormat when the shape differs, kUnsupported when its element type is one
  // that we cannot read.
  const HostTensor& Get(std::string_view name, std::span<const std::int64_t> expected_shape) const;
  const HostTensor& Get(std::string_view name,
                        std::initializer_list<std::int64_t> expected_shape) const;

  // The same for a tensor whose shape is not known beforehand.
  const HostTensor& GetAnyShape(std::string_view name) const;

  // Names of quantized tensors that need scales (NeedsScales), sorted. Get refuses them until
  // MarkScaled.
  [[nodiscard]] std::vector<std::string> Quantized() const;
  // The tensor, whether its scales were found or not. Throws as Get.
  const HostTensor& GetQuantized(std::string_view name) const;
  // From now on Get gives the tensor: its readers apply its scales.
  void MarkScaled(std::string_view name);

  // The file that a tensor is in, for messages. Throws kNotFound.
  const std::string& FileOf(std::string_view name) const;

  // A tensor of unsigned bytes, which are no weights by themselves; its dtype means nothing. Throws
  // as Get, kUnsupported when the elements are something else.
  const HostTensor& GetBytes(std::string_view name,
                             std::span<const std::int64_t> expected_shape) const;
  // The same of any shape; null when there is no such tensor of bytes.
  const HostTensor* FindBytes(std::string_view name) const;

  // Sorted.
  [[nodiscard]] std::vector<std::string> Names() const;

  // The files that the tensors are in.
  [[nodiscard]] std::vector<std::string> Files() const;

  // The tensor was read and need not stay in memory; it can still be read, from its file again.
  void Forget(const HostTensor& tensor) const;

  // Bytes of all tensors as stored.
  [[nodiscard]] size_t TotalBytes() const;

  // --- For the readers of file formats. ---

  // Takes the file over and returns its bytes, which stay where they are.
  std::span<const std::byte> AddFile(MappedFile file);

  // Throws kFormat when the name is taken. `file` names the source in messages.
  void Add(HostTensor tensor, const std::string& file);

  // A tensor that is listed in `file` but has an element type that we cannot read.
  void AddUnsupported(const std::string& name, const std::string& type_name, size_t bytes,
                      const std::string& file);

  // A tensor of unsigned bytes, for GetBytes alone.
  void AddBytes(HostTensor tensor, const std::string& file);

  // Moves everything of `other` here; throws kFormat when both have a tensor of one name.
  void Absorb(TensorStore other);

 private:
  struct Entry {
    HostTensor tensor;
    std::string unsupported_type;  // not empty: the tensor cannot be fetched
    std::string file;
    size_t stored_bytes = 0;
    bool scaled = false;  // of codes: its scales were found
  };

  void Insert(Entry entry);
  const Entry& Find(std::string_view name) const;
  const Entry& FindReadable(std::string_view name) const;
  static void CheckShape(const Entry& entry, std::span<const std::int64_t> expected_shape);

  std::vector<MappedFile> files_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace banyan
