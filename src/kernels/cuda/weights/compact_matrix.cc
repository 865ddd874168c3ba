#include "kernels/cuda/weights/compact_matrix.h"

namespace banyan::cuda {

std::optional<CompactForm> CompactFormOf(DType type) {
  switch (type) {
    case DType::kQ8_0:
      return CompactForm::kQ8_0;
    case DType::kQ4_0:
      return CompactForm::kQ4_0;
    case DType::kQ4_K:
      return CompactForm::kQ4_K;
    case DType::kQ6_K:
      return CompactForm::kQ6_K;
    case DType::kMXFP4:
      return CompactForm::kMXFP4;
    case DType::kQ4_1:
      return CompactForm::kQ4_1;
    case DType::kQ5_K:
      return CompactForm::kQ5_K;
    case DType::kIQ4_NL:
      return CompactForm::kIQ4_NL;
    default:
      return std::nullopt;
  }
}

int TileColumns(CompactForm form) {
  return form == CompactForm::kQ8_0 || form == CompactForm::kQ6_K ? 32 : 64;
}

int RecordBytes(CompactForm form) {
  switch (form) {
    case CompactForm::kQ8_0:
      return 4;
    case CompactForm::kQ4_0:
      return 8;
    case CompactForm::kQ4_K:
      return 16;
    case CompactForm::kQ6_K:
      return 8;
    case CompactForm::kMXFP4:
      return 4;
    case CompactForm::kQ4_1:
      return 16;
    case CompactForm::kQ5_K:
      return 32;
    case CompactForm::kIQ4_NL:
      return 8;
  }
  return 0;
}

bool ConvertsOnDevice(DType type) {
  return type == DType::kF32 || type == DType::kF16 || CompactFormOf(type).has_value();
}

}  // namespace banyan::cuda
