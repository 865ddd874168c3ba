// A file that is part of the binary: cmake/EmbedFiles.cmake writes lists of them at build time.
#pragma once

#include <string_view>

namespace banyan {

struct EmbeddedFile {
  std::string_view name;  // without folders: "page.css"
  std::string_view bytes;
};

}  // namespace banyan
