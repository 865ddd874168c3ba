// Answers that say that there is none.
#pragma once

#include <string>
#include <string_view>

namespace banyan {

// For comparing answers: case, punctuation around and space do not make two different.
std::string ComparableAnswer(const std::string& answer);
// The answer of a model that finds none: no words, or `null_text`, whatever its case and
// punctuation.
bool SaysNothing(const std::string& answer, const std::string& null_text = "null");
// What was written so far may still become that.
bool MayBecomeNothing(std::string_view text, const std::string& null_text = "null");

}  // namespace banyan
