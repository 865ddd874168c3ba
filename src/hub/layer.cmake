# Where the shipped model is when it is not beside the running program. A wheel is installed into a temporary folder
# first, whose name is nothing to remember, least of all one in /tmp.
set(data_folder ${CMAKE_INSTALL_FULL_DATADIR})
if(BANYAN_PYTHON)
  set(data_folder /usr/share)
endif()
set_source_files_properties(${dir}/locate.cc PROPERTIES
  COMPILE_DEFINITIONS "BANYAN_DATA_DIRECTORY=\"${data_folder}/banyan\"")
