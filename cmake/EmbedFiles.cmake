# cmake -D FILES=… -D LIST=… -D OUTPUT=… -P EmbedFiles.cmake: a C++ source with the bytes of the files
# (| between them) and their names, as the span LIST of EmbeddedFile (src/base/files.h).
string(REPLACE "|" ";" files "${FILES}")
set(source "#include <span>\n\n#include \"base/files.h\"\n\nnamespace banyan {\nnamespace {\n\n")
string(APPEND source "using namespace std::string_view_literals;\n\nconst EmbeddedFile ${LIST}Bytes[] = {\n")
foreach(file ${files})
  get_filename_component(name ${file} NAME)
  file(READ ${file} bytes HEX)
  # 8 bytes a line, as escapes of one literal.
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
  string(REGEX REPLACE "((\\\\x..)(\\\\x..)?(\\\\x..)?(\\\\x..)?(\\\\x..)?(\\\\x..)?(\\\\x..)?(\\\\x..)?)"
         "  \"\\1\"\n" bytes "${bytes}")
  string(APPEND source "  {\"${name}\",\n${bytes}  \"\"sv},\n")
endforeach()
string(APPEND source "};\n\n}  // namespace\n\nextern const std::span<const EmbeddedFile> ${LIST};\n")
string(APPEND source "const std::span<const EmbeddedFile> ${LIST} = ${LIST}Bytes;\n\n}  // namespace banyan\n")
file(WRITE ${OUTPUT} "${source}")
