// /v1/embeddings: vectors by an encoder.
#pragma once

#include <string>
#include <string_view>

#include "serve/request/context.h"

namespace banyan {

// The reply's body. Throws ApiError.
std::string Embeddings(ServeContext& context, std::string_view body);

}  // namespace banyan
