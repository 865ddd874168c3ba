# make deb: a Debian package of the component program. What it depends on is read from the binary by
# dpkg-shlibdeps; the development files stay with make install.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME banyan)
set(CPACK_PACKAGE_VENDOR "Banyan")
set(CPACK_PACKAGE_CONTACT "The authors of Banyan <banyan@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "many questions about many documents, by a language model")
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
    "Banyan answers many questions over shared text at once, with exactly the answers
of one-by-one decoding: what documents and questions have in common is computed
once. It runs GGUF files and Hugging Face directories on the CPU, offline. A small
model that reads short facts out of English text comes with it.")
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME banyan)
set(CPACK_DEBIAN_PACKAGE_SECTION text)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "poppler-utils, python3-pip, bash-completion")
set(CPACK_OUTPUT_FILE_PREFIX ${CMAKE_BINARY_DIR})
include(CPack)
