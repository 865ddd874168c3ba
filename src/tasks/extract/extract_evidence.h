// Values against the words around them: a number whose neighbour on the page is another unit, a
// share that is an amount of money, a currency that the page does not name, "paid in full" where it
// speaks of a deposit.
#pragma once

#include "program/json_library.h"

#include <string>
#include <string_view>

#include "banyan/extract.h"

namespace banyan {

// Why the document does not say what the value says; empty: nothing speaks against it. `raw` is
// what was written of the document for the value. Only what can be told by rules is refused.
std::string EvidenceAgainst(const ExtractAttribute& attribute, const nlohmann::ordered_json& value,
                            const nlohmann::ordered_json& raw, std::string_view document);

}  // namespace banyan
