// Where a long text may be cut.
#pragma once

#include <cstddef>
#include <string_view>

namespace banyan {

// The best place to end a part at or before `end`, looking back at most `back` bytes: after a
// paragraph, else a line, else a sentence, else a word, else between characters. The text's end is
// one.
size_t CutPlace(std::string_view text, size_t end, size_t back);

// The best place to begin a passage, from `begin` on and before `most`: after a paragraph, a line,
// a sentence or a word; `begin` itself, moved to a character, when there is none.
size_t BeginPlace(std::string_view text, size_t begin, size_t most);

}  // namespace banyan
