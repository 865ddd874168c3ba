#include "kv/page_pool.h"

#include "base/error.h"

namespace banyan {

PagePool::PagePool(int pages) : held_(static_cast<size_t>(pages), false) {
  for (int page = pages - 1; page >= 0; --page) free_.push_back(PageId(page));
}

bool PagePool::Take(int count, std::vector<PageId>& pages) {
  if (count > free()) return false;
  for (int i = 0; i < count; ++i) {
    const PageId page = free_.back();
    free_.pop_back();
    held_[page.index()] = true;
    pages.push_back(page);
  }
  return true;
}

void PagePool::Give(PageId page) {
  BANYAN_CHECK(page.valid() && page.index() < held_.size() && held_[page.index()]);
  held_[page.index()] = false;
  free_.push_back(page);
}

}  // namespace banyan
