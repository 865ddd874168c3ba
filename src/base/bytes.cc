#include "program/bytes.h"

#include <cctype>
#include <cstdlib>

#include "base/error.h"

namespace banyan {

std::int64_t ParseBytes(const std::string& text, const std::string& option) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  std::string unit = end;
  for (char& c : unit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (unit.size() > 1 && unit.back() == 'B') unit.pop_back();
  if (unit.size() > 1 && unit.back() == 'I') unit.pop_back();
  double factor = 0.0;
  if (unit.empty() || unit == "B") factor = 1.0;
  if (unit == "K") factor = 1024.0;
  if (unit == "M") factor = 1024.0 * 1024.0;
  if (unit == "G") factor = 1024.0 * 1024.0 * 1024.0;
  if (end == text.c_str() || factor == 0.0 || !(number > 0.0) || number * factor > 1e15) {
    Throw(ErrorKind::kUsage, "{}: expected a size such as 512M or 2G, found '{}'", option, text);
  }
  return static_cast<std::int64_t>(number * factor);
}

}  // namespace banyan
