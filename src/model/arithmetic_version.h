// The version of the arithmetic that computes keys and values. It is part of the identity of KV on
// disk (load/kv_identity.h): blocks of one version are never read by another.
#pragma once

#include <string>

namespace banyan {

// Raise it by one in any change after which a backend computes other bits of keys or values from
// the same model, tokens and options: another order of sums, another rounding, another form of
// weights or activations. Whatever users have stored is then computed again, once. Leave it when
// the bits stay (names, comments, speed, another compiler). golden_bits_test.cc fails when the bits
// change and this number does not.
inline constexpr int kArithmeticVersion = 2;

// What the bits depend on beside the code and the backend (Kernels::arithmetic): the processor's
// architecture and the C library, whose cosines and exponentials we use. "aarch64, glibc 2.36".
std::string ArithmeticPlatform();

}  // namespace banyan
