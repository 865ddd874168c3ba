// Copies that follow a separator.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "banyan/constrain.h"

namespace banyan {

// As Constraint::FromCopies, with the text `before` in front of every answer: what separates an
// answer from a prompt that has no chat template. Models write it in one token with the first word.
// Without a token for one of its bytes it is left out.
std::shared_ptr<const Constraint> CopiesAfter(std::string_view before, std::string_view text,
                                              std::span<const std::string> others,
                                              std::shared_ptr<const TokenTrie> trie,
                                              ConstraintOptions options);

}  // namespace banyan
