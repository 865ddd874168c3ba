// The parts of a form with a file in it (multipart/form-data, RFC 7578).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace banyan {

struct FormPart {
  std::string name, filename;
  std::string_view bytes;  // of the body
};

// Throws ApiError 400 when the body is no such form; 415 when it does not claim to be one.
std::vector<FormPart> ReadForm(std::string_view content_type, std::string_view body);

}  // namespace banyan
