// The text of a growing answer: what of it may be shown already, and where a stop string ends it.
// Text is watched across token and character boundaries.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace banyan {

class AnswerText {
 public:
  // `stops` holds no empty strings; it may be empty itself.
  AnswerText(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stops);

  // Feeds a token; true when the text now holds a stop string. No tokens may follow then.
  bool Push(TokenId token);

  // What may be shown and was not taken before: whole characters, and nothing that a stop string
  // could still begin with.
  std::string TakeShowable();

  // The answer's text: all of it, or what stands before the first stop string. Afterwards all of it
  // may be shown.
  std::string Finish();

 private:
  bool Search();
  size_t HeldBack() const;

  StreamDecoder decoder_;
  std::vector<std::string> stops_;
  size_t longest_ = 0;
  std::string text_;
  size_t searched_ = 0;  // no stop string begins before this
  size_t shown_ = 0;
  bool ended_ = false;  // by a stop string or by Finish: nothing is held back
};

}  // namespace banyan
