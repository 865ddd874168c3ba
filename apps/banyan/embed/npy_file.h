// Vectors as a file of NumPy: one array of float32, [rows, columns], read with numpy.load.
#pragma once

#include <cstdint>
#include <fstream>
#include <vector>

namespace banyan::app {

class NpyFile {
 public:
  // `file` must outlive this; nothing else writes to it.
  NpyFile(std::ofstream& file, int columns);
  void Add(const std::vector<float>& row);  // REQUIRES: so many columns
  // Writes the number of rows. The file's state says whether everything could be written.
  void Finish();

 private:
  void WriteHeader();

  std::ofstream& file_;
  int columns_;
  std::int64_t rows_ = 0;
};

}  // namespace banyan::app
