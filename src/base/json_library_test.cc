// The end of JSON values without memory. Blocks of this test program are counted per thread.
#include "program/json_library.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <string>

namespace {
thread_local bool has_memory = true;
thread_local int refused = 0;
}  // namespace

// Of all tests that are linked with this one. GCC warns of mismatched pairs where it puts only one
// of the two into its callers.
[[gnu::noinline]] void* operator new(std::size_t size) {
  void* const memory = has_memory ? std::malloc(size == 0 ? 1 : size) : nullptr;
  if (memory != nullptr) return memory;
  ++refused;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace banyan {
namespace {

class WithoutMemory {
 public:
  WithoutMemory() {
    refused = 0;
    has_memory = false;
  }
  ~WithoutMemory() { has_memory = true; }
};

template <typename Json>
class JsonLibrary : public testing::Test {};
using Kinds = testing::Types<nlohmann::json, nlohmann::ordered_json>;
TYPED_TEST_SUITE(JsonLibrary, Kinds);

// It ended the program: the library made a list of what is in a value, in its destructor.
TYPED_TEST(JsonLibrary, AValueEndsWithoutMemory) {
  const std::string text =
      R"([1,{"a":[2,"a text that has a block of its own",{}],"b":[[]]},[[3]]])";
  TypeParam value = TypeParam::parse(text);
  TypeParam copy = value;
  EXPECT_EQ(copy.dump(), text);
  {
    const WithoutMemory none;
    value = nullptr;
    copy.clear();
    EXPECT_EQ(refused, 0);
  }
  EXPECT_EQ(value.dump() + copy.dump(), "null[]");
}

TYPED_TEST(JsonLibrary, AContainerThatCouldNotBeMadeEnds) {
  int caught = 0;
  const WithoutMemory none;
  try {
    TypeParam value;
    value.push_back(1);
  } catch (const std::bad_alloc&) {
    ++caught;
  }
  EXPECT_EQ(caught, 1);
}

// More than the stack of a thread could take, call by call.
TYPED_TEST(JsonLibrary, ManyThousandLevelsEnd) {
  constexpr int kLevels = 100'000;
  std::string arrays(kLevels, '['), objects;
  for (int i = 0; i < kLevels; ++i) objects += R"([0,{"a":)";
  objects += "1";
  for (int i = 0; i < kLevels; ++i) objects += "}]";
  EXPECT_EQ(TypeParam::parse(arrays + std::string(kLevels, ']')).size(), 1u);
  EXPECT_EQ(TypeParam::parse(objects).size(), 2u);
}

}  // namespace
}  // namespace banyan
