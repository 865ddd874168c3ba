// Filters: expected texts are what Jinja2 3.1.6 renders.
#include <gtest/gtest.h>
#include <string>

#include "text/jinja/render_fixture.h"

namespace banyan::jinja {

namespace {

TEST(Jinja, Filters) {
  const Example examples[] = {
      {"s|trim", "Hello World"},
      {"s|length", "14"},
      {"u|upper", "SSÉX ÜNÏ"},
      {"u|lower", "ßéx ünï"},
      {"u|capitalize", "Sséx ünï"},
      {"xx|length", "0"},
      {"xx|default('q')", "q"},
      {"e|default('q')", ""},
      {"e|default('q', true)", "q"},
      {"no|default('q')", "None"},
      {"d.keys()|list|tojson", "[\"b\", \"a\", \"items\", \"k\"]"},
      {"d.values()|list|tojson", "[1, \"x\", 5, [1, {\"y\": null}]]"},
      {"d|tojson", "{\"b\": 1, \"a\": \"x\", \"items\": 5, \"k\": [1, {\"y\": null}]}"},
      {"d|tojson(indent=2)",
       "{\n  \"b\": 1,\n  \"a\": \"x\",\n  \"items\": 5,\n  \"k\": [\n    1,\n    {\n      \"y\": "
       "null\n    }\n  ]\n}"},
      {"ld|tojson", "[{\"n\": \"x\", \"v\": 2}, {\"n\": \"y\", \"v\": 1}, {\"v\": 3}]"},
      {"u|tojson", "\"ßÉx Ünï\""},
      {"f|tojson", "2.5"},
      {"g|tojson", "1e+20"},
      {"nl|tojson", "\"a\\nb\\n\\nc\""},
      {"q|tojson", "\"it's\""},
      {"el|tojson(indent=1)", "[]"},
      {"[[],{}]|tojson(indent=1)", "[\n [],\n {}\n]"},
      {"l|tojson(indent=4)", "[\n    3,\n    1,\n    2\n]"},
      {"l|tojson", "[3, 1, 2]"},
      {"d|tojson", "{\"b\": 1, \"a\": \"x\", \"items\": 5, \"k\": [1, {\"y\": null}]}"},
      {"ls|tojson", "[\"b\", \"A\", \"c\", \"a\"]"},
      {"[q,dq,nl,u]|tojson", "[\"it's\", \"a\\\"b\", \"a\\nb\\n\\nc\", \"ßÉx Ünï\"]"},
      {"(1,)|tojson", "[1]"},
      {"()|tojson", "[]"},
      {"(1,2)|tojson", "[1, 2]"},
      {"[none,true,1.5]|tojson", "[null, true, 1.5]"},
      {"{1:2, 'a':[1]}|tojson", "{\"1\": 2, \"a\": [1]}"},
      {"['\\x00\\x7f\\u200b']|tojson", "[\"\\u0000​\"]"},
      {"l|join", "312"},
      {"l|join(', ')", "3, 1, 2"},
      {"ls|join('-')", "b-A-c-a"},
      {"ld|join(',', attribute='v')", "2,1,3"},
      {"l|first", "3"},
      {"l|last", "2"},
      {"el|first", ""},
      {"s|first", " "},
      {"ls|map('upper')|list|tojson", "[\"B\", \"A\", \"C\", \"A\"]"},
      {"ls|map('upper')|join", "BACA"},
      {"ld|selectattr('n')|list|tojson", "[{\"n\": \"x\", \"v\": 2}, {\"n\": \"y\", \"v\": 1}]"},
      {"(ld|selectattr('n','defined')|list)|tojson",
       "[{\"n\": \"x\", \"v\": 2}, {\"n\": \"y\", \"v\": 1}]"},
      {"(ld|selectattr('n','equalto','x')|list)|tojson", "[{\"n\": \"x\", \"v\": 2}]"},
      {"(ld|rejectattr('n','equalto','x')|list)|tojson", "[{\"n\": \"y\", \"v\": 1}, {\"v\": 3}]"},
      {"([0,1,'']|select|list)|tojson", "[1]"},
      {"d|items|list|tojson",
       "[[\"b\", 1], [\"a\", \"x\"], [\"items\", 5], [\"k\", [1, {\"y\": null}]]]"},
      {"(ld|map(attribute='n',default='?')|list)|tojson", "[\"x\", \"y\", \"?\"]"},
      {"'abc'|list|tojson", "[\"a\", \"b\", \"c\"]"},
      {"'3'|int", "3"},
      {"'3.7'|int", "3"},
      {"'x'|int", "0"},
      {"'x'|int(5)", "5"},
      {"f|int", "2"},
      {"' 42 '|int", "42"},
      {"none|int", "0"},
      {"s|replace('l','L')", "  HeLLo WorLd "},
      {"s|replace('l','L',1)", "  HeLlo World "},
      {"'<a>'|safe", "<a>"},
      {"range(5)|list|tojson", "[0, 1, 2, 3, 4]"},
      {"(range(2,8,3)|list)|tojson", "[2, 5]"},
      {"(range(5,0,-2)|list)|tojson", "[5, 3, 1]"},
      {"'x'|trim('x')", ""},
      {"'é'|length", "1"},
      {"u|list|tojson", "[\"ß\", \"É\", \"x\", \" \", \"Ü\", \"n\", \"ï\"]"},
      {"' a '|trim", "a"},
      {"' a '|trim|length", "1"},
      {"n|string", "7"},
      {"n|string|length", "1"},
      {"s|upper", "  HELLO WORLD "},
      {"s|upper|trim", "HELLO WORLD"},
      {"s|upper|trim|lower", "hello world"},
      {"d|length", "4"},
      {"d|list|tojson", "[\"b\", \"a\", \"items\", \"k\"]"},
      {"d|first", "b"},
      {"l|length > 2", "True"},
      {"l|length == 3 and s", "  Hello World "},
      {"l|length == 3 and s|length", "14"},
      {"xx|upper", ""},
      {"xx|list|tojson", "[]"},
      {"xx|join", ""},
      {"xx|trim", ""},
      {"no|trim", "None"},
      {"no|upper", "NONE"},
      {"l|tojson", "[3, 1, 2]"},
      {"l|tojson|length", "9"},
      {"{}|first", ""},
  };
  for (const Example& example : examples) {
    EXPECT_EQ(RenderExample("{{ " + std::string(example.source) + " }}"), example.expected)
        << example.source;
  }
}

}  // namespace

}  // namespace banyan::jinja
