// ICU's data with nothing in it, for a libicudata of 16 KB (tools/wheel.sh): a header and a table of 0 entries, as the
// stub has that ICU's own build begins with. ICU_DATA is the symbol that libicuuc looks for.
#include <stdint.h>

struct DataInfo {
  uint16_t size, reserved;
  uint8_t is_big_endian, charset_family, uchar_bytes, reserved_byte, format[4], format_version[4], data_version[4];
};

struct EmptyData {
  uint16_t header_bytes;
  uint8_t magic[2];
  struct DataInfo info;
  char padding[8];
  uint32_t entries, reserved, more[4];
};

const struct EmptyData ICU_DATA __attribute__((aligned(16))) = {
    .header_bytes = 32,
    .magic = {0xda, 0x27},
    .info = {.size = sizeof(struct DataInfo),
             .is_big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__,
             .uchar_bytes = 2,
             .format = {'T', 'o', 'C', 'P'},
             .format_version = {1}},
};
