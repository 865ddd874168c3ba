// What is asked after the first answers of a part are known: the objects of a list, once it is
// known how many there are, and values once more of which the first answer was not enough:
// - a null of which the model was not sure enough (the card's null_bias), without the choice of
//   null;
// - an enum's value that is less likely than not: every allowed value by its whole probability,
//   since the likeliest first token need not begin the likeliest value;
// - a text that no rule turns into the attribute's number or date: the model chooses among the
//   document's texts that have one, and null.
#pragma once

#include <span>
#include <vector>

#include "tasks/extract/extract_prompt.h"
#include "tasks/extract/extract_value.h"

namespace banyan {

// What the model wrote for the values of a document. [leaves]
std::vector<WrittenValue> WrittenValues(const ExtractStack& stack, const ExtractPart& part,
                                        size_t document);

// The first of the likeliest answers, with the tokens of all.
WrittenValue LikeliestOf(const SecondLook& look);

class SecondLookFinder {
 public:
  SecondLookFinder(const ExtractStack& stack, SlotConstraints& constraints)
      : stack_(stack), constraints_(constraints) {}

  // Fills in the part's items and looks. REQUIRES: the part's answers are there.
  void Find(ExtractPart& part) const;

 private:
  void FindItems(ExtractPart& part) const;
  void FindDoubts(ExtractPart& part, size_t document) const;
  std::vector<ValueSlot> SlotsOfDoubt(const ExtractPart& part, size_t slot,
                                      const WrittenValue& written) const;

  const ExtractStack& stack_;
  SlotConstraints& constraints_;
};

}  // namespace banyan
