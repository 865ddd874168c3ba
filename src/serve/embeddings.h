// /v1/embeddings: vectors by an encoder.
#pragma once

#include <string>
#include <string_view>

#include "serve/context.h"

namespace banyan {

// The reply's body. Throws ApiError.
std::string Embeddings(ServeContext& context, std::string_view body);

// For vectors as bytes: RFC 4648, with padding.
std::string Base64(std::string_view bytes);

}  // namespace banyan
