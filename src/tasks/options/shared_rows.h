// Rows that several tasks have, with the same name, range, help and identity in each.
#pragma once

#include "program/option_names.h"
#include "tasks/options/option_rows.h"

namespace banyan {

template <typename Options>
Row<Options> MaxNewRow() {
  return Row<Options>::Whole("max_new", &Options::max_new, "Maximum number of tokens of an answer")
      .From(1)
      .Unit("tokens")
      .Alias("max_tokens")
      .OverHttp("max_tokens")
      .Limit(ServerLimit::kTokens)
      .Identity();
}

template <typename Options>
Row<Options> StopRow() {
  return Row<Options>::Texts("stop", &Options::stop, "A text that ends an answer; may be repeated")
      .Elsewhere("A text, or several, that ends an answer")
      .MostTexts(16)
      .Identity();
}

template <typename Options>
Row<Options> ChatRow() {
  return Row<Options>::Name("chat", &Options::chat, ChatNames(),
                            "The model's chat template: auto, on or off")
      .Identity();
}

}  // namespace banyan
