// Prompt lookup: what a text may go on with, by what followed the same words earlier in it.
#pragma once

#include <span>
#include <vector>

#include "banyan/types.h"

namespace banyan {

// The tokens after the latest earlier place of the text's last tokens: of the last `longest` of
// them, or of fewer, down to one, where no longer run comes twice. At most `most`; none where
// the last token is new.
std::vector<TokenId> LookUpDraft(std::span<const TokenId> text, int longest, int most);

}  // namespace banyan
