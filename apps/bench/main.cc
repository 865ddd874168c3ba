// banyan-bench: `banyan bench` calls it with the same words.
#include <vector>

#include "bench_commands.h"
#include "program.h"

int main(int argc, char** argv) {
  std::string program = "banyan", bench = "bench";
  std::vector<char*> words = {program.data(), bench.data()};
  words.insert(words.end(), argv + 1, argv + argc);
  return banyan::app::RunCommands(static_cast<int>(words.size()), words.data(),
                                  {banyan::app::AddBenches});
}
