// Encoders for several threads: each takes one for as long as it works on a record, so that what an
// encoder remembers of the record's context serves all its questions.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tasks/prompt/prompt_encoder.h"

namespace banyan {

class EncoderPool {
 public:
  EncoderPool(std::shared_ptr<const Text> text, bool add_bos)
      : text_(std::move(text)), add_bos_(add_bos) {}

  class Lease {
   public:
    Lease(EncoderPool& pool, std::unique_ptr<PromptEncoder> encoder)
        : pool_(pool), encoder_(std::move(encoder)) {}
    ~Lease() {
      const std::lock_guard lock(pool_.mutex_);
      pool_.free_.push_back(std::move(encoder_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    PromptEncoder* get() const { return encoder_.get(); }

   private:
    EncoderPool& pool_;
    std::unique_ptr<PromptEncoder> encoder_;
  };

  Lease Take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return {*this, std::make_unique<PromptEncoder>(text_, add_bos_)};
    std::unique_ptr<PromptEncoder> encoder = std::move(free_.back());
    free_.pop_back();
    return {*this, std::move(encoder)};
  }

 private:
  std::shared_ptr<const Text> text_;
  const bool add_bos_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<PromptEncoder>> free_;
};

}  // namespace banyan
