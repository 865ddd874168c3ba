# make deb: a Debian package of the component program. What it depends on is read from the binary by
# dpkg-shlibdeps; the development files stay with make install.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME banyan)
set(CPACK_PACKAGE_VENDOR "Banyan")
set(BANYAN_MAINTAINER "The authors of Banyan <banyan@localhost>" CACHE STRING
    "Who answers for the Debian package: who publishes one names himself")
set(CPACK_PACKAGE_CONTACT "${BANYAN_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "many questions about many documents, by a language model")
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
    "Banyan answers many questions over shared text at once, with exactly
the answers of one-by-one decoding: what documents and questions have in
common is computed once. It runs GGUF files and Hugging Face directories
on the CPU, offline. A small model that reads short facts out of English
text comes with it.")
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME banyan)
set(CPACK_DEBIAN_PACKAGE_SECTION text)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Opened when a download begins (src/hub/curl_library.cc), so that dpkg-shlibdeps does not see it.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libcurl4 | libcurl4t64 | libcurl3-gnutls, ca-certificates")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "poppler-utils, python3-pip, bash-completion")
set(CPACK_OUTPUT_FILE_PREFIX ${CMAKE_BINARY_DIR})

# What Debian's policy asks for beside the program: a changelog in its own form, whose date is that of the commit
# (SOURCE_DATE_EPOCH, else now), and the reason for what lintian finds.
set(debian ${CMAKE_BINARY_DIR}/debian)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${debian}/changelog "banyan (${PROJECT_VERSION}) unstable; urgency=medium

  * Version ${PROJECT_VERSION}. CHANGELOG.md in this folder lists the changes.

 -- ${BANYAN_MAINTAINER}  ${date}
")
execute_process(COMMAND gzip -9nf ${debian}/changelog RESULT_VARIABLE compressed)
file(WRITE ${debian}/overrides "# Who publishes the package sets BANYAN_MAINTAINER; one that is built at home has no address.
banyan: bogus-mail-host
banyan: bogus-mail-host-in-debian-changelog
")
if(compressed EQUAL 0)
  install(FILES ${debian}/changelog.gz DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
endif()
install(FILES ${debian}/overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME banyan
        COMPONENT program)
include(CPack)
