#include "base/head_source.h"

#include <algorithm>
#include <cstring>

namespace banyan {

std::string_view HeadSource::Head(size_t most_bytes,
                                  const std::function<bool(std::string_view)>& enough) {
  constexpr size_t kChunkBytes = 4096;
  char bytes[kChunkBytes];
  while (head_.size() < most_bytes && !enough(head_)) {
    const size_t got = source_->Read(std::span(bytes, std::min(kChunkBytes, most_bytes)));
    if (got == 0) break;
    head_.append(bytes, got);
  }
  return head_;
}

std::int64_t HeadSource::position() const {
  const auto unread = static_cast<std::int64_t>(head_.size() - given_);
  return std::max<std::int64_t>(0, source_->position() - unread);
}

size_t HeadSource::Read(std::span<char> out) {
  if (given_ == head_.size()) return source_->Read(out);
  const size_t count = std::min(out.size(), head_.size() - given_);
  std::memcpy(out.data(), head_.data() + given_, count);
  given_ += count;
  return count;
}

}  // namespace banyan
