// For tests: renders a template over a fixed set of variables.
#pragma once

#include <string>

#include "base/json.h"
#include "text/chat_template.h"

namespace banyan::jinja {

struct Example {
  const char* source;
  const char* expected;
};

// s, u, e, q, dq, nl: strings; n, z, neg, big: integers; f, g, h: floats; l, ls, ld, el: lists; d,
// ed: objects; t, no: true and null.
inline constexpr const char* kExampleVariables =
    R"json({
  "s": "  Hello World ", "u": "ßÉx Ünï", "e": "", "q": "it's", "dq": "a\"b", "nl": "a\nb\n\nc",
  "n": 7, "z": 0, "neg": -3, "big": 123456789012, "f": 2.5, "g": 1e+20, "h": 1e-07,
  "t": true, "no": null, "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "el": [],
  "ld": [{"n": "x", "v": 2}, {"n": "y", "v": 1}, {"v": 3}],
  "d": {"b": 1, "a": "x", "items": 5, "k": [1, {"y": null}]}, "ed": {}
})json";

inline std::string RenderExample(const std::string& source) {
  ChatOptions options;
  options.extra = OrderedJson::parse(kExampleVariables);
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  std::tm date = {};
  date.tm_year = 125;  // 2025-03-04
  date.tm_mon = 2;
  date.tm_mday = 4;
  options.date = date;
  return ChatTemplate(source).Render(OrderedJson::array(), options);
}

}  // namespace banyan::jinja
