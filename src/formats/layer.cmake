# Where the shipped model is when it is not beside the running program.
set_source_files_properties(${dir}/shipped_model.cc PROPERTIES
  COMPILE_DEFINITIONS "BANYAN_DATA_DIRECTORY=\"${CMAKE_INSTALL_FULL_DATADIR}/banyan\"")
