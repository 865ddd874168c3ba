#include "decode/random.h"

#include <initializer_list>

namespace banyan {
namespace {

// The finaliser of splitmix64: a bijection with full avalanche.
std::uint64_t Scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

double UniformOf(const DrawKey& key) {
  std::uint64_t state = Scramble(key.seed);
  for (const std::uint64_t part : {key.request, key.question, key.sample, key.position}) {
    state = Scramble(state ^ Scramble(part));
  }
  return static_cast<double>(state >> 11) * 0x1p-53;
}

}  // namespace banyan
