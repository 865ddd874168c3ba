// Reads JSON Schemas, one per line, and writes texts that fit them, COUNT per schema, each as
// {"schema": number of its line from 0, "text": …}; or {"schema", "error"} where one is refused.
// usage: constrain_samples COUNT < SCHEMAS
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

#include "banyan/error.h"
#include "base/json.h"
#include "constrain/json_schema.h"
#include "support/random_match.h"

int main(int argc, char** argv) {
  using banyan::Json;
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s COUNT < SCHEMAS\n", argv[0]);
    return 2;
  }
  std::mt19937 random(1);
  std::string line;
  for (int number = 0; std::getline(std::cin, line); ++number) {
    try {
      const banyan::Dfa dfa{banyan::Nfa(*banyan::ReadJsonSchema(line))};
      banyan::testing_support::RandomMatches texts(dfa);
      for (int i = std::atoi(argv[1]); i > 0; --i) {
        std::cout << Json{{"schema", number}, {"text", texts.Next(random)}}.dump() << "\n";
      }
    } catch (const banyan::Error& e) {
      std::cout << Json{{"schema", number}, {"error", e.what()}}.dump() << "\n";
    }
  }
  return 0;
}
