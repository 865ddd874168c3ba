# cmake -D FILES=… -D OUTPUT=… -P EmbedFiles.cmake: a C++ source with the bytes of the files (a list
# with | between) and their names, for src/serve/page.h.
string(REPLACE "|" ";" files "${FILES}")
set(source "#include \"serve/page.h\"\n\nnamespace banyan {\n\nusing namespace std::string_view_literals;\n\n")
string(APPEND source "const EmbeddedFile kEmbeddedFiles[] = {\n")
list(LENGTH files count)
foreach(file ${files})
  get_filename_component(name ${file} NAME)
  file(READ ${file} bytes HEX)
  # 32 bytes a line, as escapes of one literal.
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
  string(REGEX REPLACE "((\\\\x..)(\\\\x..)?(\\\\x..)?(\\\\x..)?(\\\\x..)?(\\\\x..)?(\\\\x..)?(\\\\x..)?)"
         "  \"\\1\"\n" bytes "${bytes}")
  string(APPEND source "  {\"${name}\",\n${bytes}  \"\"sv},\n")
endforeach()
string(APPEND source "};\nconst size_t kEmbeddedFileCount = ${count};\n\n}  // namespace banyan\n")
file(WRITE ${OUTPUT} "${source}")
