// Vectors as a file of NumPy: one array of float32, [rows, columns], read with numpy.load.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace banyan::app {

class NpyFile {
 public:
  // Throws kIo when the file cannot be made.
  NpyFile(const std::string& path, int columns);
  void Add(const std::vector<float>& row);  // REQUIRES: so many columns
  // Writes the number of rows. Throws kIo when anything could not be written.
  void Finish();

 private:
  void WriteHeader();

  std::string path_;
  std::ofstream file_;
  int columns_;
  std::int64_t rows_ = 0;
};

}  // namespace banyan::app
