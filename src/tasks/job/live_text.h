// An answer's text while it is written: what of it can be shown, because nothing that is still to
// come changes it.
#pragma once

#include <string>
#include <string_view>

namespace banyan {

class LiveText {
 public:
  struct Rules {
    std::string null_text = "null";  // text that may still become it is held back
    bool sure = true;                // false: another answer may take its place; all is held back
    bool whole_words = false;        // a last word may be cut off at the end; it is held back
  };

  void Add(std::string_view text) { text_ += text; }
  // What was written is not the answer. REQUIRES: !began().
  void Clear() { text_.clear(); }
  // The text that can be shown and was not taken yet, without the space around the answer.
  std::string Take(const Rules& rules);
  // All that was written and was not taken, whatever it may become.
  std::string TakeAll();
  // What was not taken of the answer as its row has it.
  std::string TakeRest(std::string_view answer);
  bool began() const { return taken_ > 0; }

 private:
  std::string TakeUntil(size_t end);
  std::string_view Answer() const;  // the text without the space around it

  std::string text_;
  size_t taken_ = 0;  // bytes of Answer()
};

}  // namespace banyan
