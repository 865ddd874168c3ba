// Fused logits of one panel, as the host computes them. Tests only.
#pragma once

#include <span>

#include "kernels/fusion.h"

namespace banyan {

inline FusedPanel HostPanel(const LogitRows& logits, const PanelRow& panel) {
  return {logits, panel, [&logits](std::int32_t row) { return LogSumExp(logits.Row(row)); }};
}

// out [columns] = the panel's fused logits.
inline void FusePanel(const LogitRows& logits, const PanelRow& panel, std::span<float> out) {
  HostPanel(logits, panel).Fuse(0, out);
}

inline int WinningExpert(const LogitRows& logits, const PanelRow& panel, TokenId token) {
  return HostPanel(logits, panel).Winner(token);
}

}  // namespace banyan
