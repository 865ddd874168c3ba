#include "tasks/output/rows_copy.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "base/error.h"

namespace banyan {

void RowsCopy::Add(std::span<const OutputRow> rows) {
  if (path_.empty()) return;
  bytes_.push_back(0);
  Try([&] {
    for (const OutputRow& row : rows) {
      if (row.dropped) continue;
      const std::string line = RowFormat::JsonLine(row);
      bytes_.back() += line.size();
      file_->Append(line);
    }
  });
}

void RowsCopy::Flush() {
  Try([&] { file_->Flush(); });
}

void RowsCopy::Reorder(const std::vector<size_t>& records) {
  Try([&] {
    file_->Flush();
    std::ifstream file(path_, std::ios::binary);
    const std::string before((std::istreambuf_iterator<char>(file)), {});
    std::vector<size_t> begins = {0};
    for (const size_t bytes : bytes_) begins.push_back(begins.back() + bytes);
    file_ = std::make_unique<OutputFile>(path_, Packing::kNone);
    for (const size_t record : records) {
      file_->Append(std::string_view(before).substr(begins[record], bytes_[record]));
    }
    file_->Flush();
  });
}

void RowsCopy::Try(const std::function<void()>& write) {
  if (path_.empty() || failed_) return;
  try {
    if (!file_) file_ = std::make_unique<OutputFile>(path_, Packing::kNone);
    write();
  } catch (const Error&) {
    failed_ = true;
    file_.reset();
    std::error_code none;
    if (std::filesystem::is_regular_file(path_, none)) std::filesystem::remove(path_, none);
  }
}

}  // namespace banyan
