// A source whose first bytes can be looked at before they are read.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/byte_source.h"

namespace banyan {

class HeadSource : public ByteSource {
 public:
  explicit HeadSource(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}

  // The source's beginning: as much as `enough` asks to see, at most `most_bytes` (and what came
  // with them), less at the end of the source. Throws what the source throws.
  std::string_view Head(size_t most_bytes, const std::function<bool(std::string_view)>& enough);

  size_t Read(std::span<char> out) override;
  // What was looked at and not read does not count (exactly so where the source is not packed).
  std::int64_t position() const override;

 private:
  std::unique_ptr<ByteSource> source_;
  std::string head_;
  size_t given_ = 0;  // bytes of the head that were read
};

}  // namespace banyan
