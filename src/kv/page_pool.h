// Numbered pages, or slots: which are free.
#pragma once

#include <vector>

#include "base/strong_int.h"

namespace banyan {

class PagePool {
 public:
  explicit PagePool(int pages);

  int total() const { return static_cast<int>(held_.size()); }
  int free() const { return static_cast<int>(free_.size()); }

  // Appends `count` pages to `pages`, or returns false and takes none.
  [[nodiscard]] bool Take(int count, std::vector<PageId>& pages);
  // REQUIRES: held.
  void Give(PageId page);
  bool Held(PageId page) const { return held_[page.index()]; }

 private:
  std::vector<PageId> free_;  // the last one is taken next
  std::vector<bool> held_;
};

}  // namespace banyan
