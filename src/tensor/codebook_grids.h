// The code books of GGUF's IQ types. A book is a set of points of a small lattice: each of the 8
// (or 4) values of a point is one of few levels, and blocks name a point by its rank in the set,
// ordered by the number whose digits are the levels, first value least significant.
#pragma once

#include <cstdint>

namespace banyan {

// Tables of [points][values of a point], made of the sets at the first call.
const std::int8_t* GridOfIQ2_XXS();  // [256][8], levels 8, 25, 43
const std::int8_t* GridOfIQ2_XS();   // [512][8], the same levels
const std::int8_t* GridOfIQ2_S();    // [1024][8], the same levels
const std::int8_t* GridOfIQ3_XXS();  // [256][4], levels 4, 12, … 52, 62
const std::int8_t* GridOfIQ3_S();    // [512][4], levels 1, 3, … 15
const std::int8_t* GridOfIQ1();      // [2048][8], levels -1, 0, 1; of IQ1_S and IQ1_M

}  // namespace banyan
