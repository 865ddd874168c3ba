#include "embed/npy_file.h"

#include <fmt/format.h>

#include <string>

namespace banyan::app {

NpyFile::NpyFile(std::ofstream& file, int columns) : file_(file), columns_(columns) {
  WriteHeader();
}

// Magic and version, the length of what follows, and a dictionary that is padded to 128 bytes in
// all, so that it has room for any number of rows.
void NpyFile::WriteHeader() {
  constexpr size_t kBytes = 128, kBefore = 10;
  std::string text = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
                                 rows_, columns_);
  text.resize(kBytes - kBefore - 1, ' ');
  file_.seekp(0);
  const char length[2] = {static_cast<char>(kBytes - kBefore), 0};
  file_.write("\x93NUMPY\x01\x00", 8).write(length, 2) << text << '\n';
}

void NpyFile::Add(const std::vector<float>& row) {
  file_.write(reinterpret_cast<const char*>(row.data()),
              static_cast<std::streamsize>(row.size() * sizeof(float)));
  ++rows_;
}

void NpyFile::Finish() { WriteHeader(); }

}  // namespace banyan::app
