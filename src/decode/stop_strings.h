// Stop strings on a growing answer: text is watched across token and character boundaries.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace banyan {

class StopStrings {
 public:
  // `stops` holds no empty strings.
  StopStrings(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stops);

  // Feeds a token; true when the text now holds a stop string. No tokens may follow then.
  bool Push(TokenId token);

  // The answer's text: all of it, or what stands before the first stop string.
  std::string Finish();

 private:
  bool Search();

  StreamDecoder decoder_;
  std::vector<std::string> stops_;
  size_t longest_ = 0;
  std::string text_;
  size_t searched_ = 0;  // no stop string begins before this
  bool stopped_ = false;
};

}  // namespace banyan
